// SPDX-License-Identifier: GPL-2.0-or-later
/* vmdefragctl top: status, refreshed in place like top(1). */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <termios.h>

#include "ctl.h"
#include "util.h"

#define CLEAR "\033[H\033[2J"

static struct termios saved_mode;

static bool keys_on(void)
{
	struct termios raw;

	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &saved_mode))
		return false;
	raw = saved_mode;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	return !tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

/* Wait for the next turn. Return: false when 'q' was pressed. */
static bool wait_turn(int interval_ms, bool keys)
{
	struct pollfd p = {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN};
	char key;

	if (poll(&p, 1, interval_ms) <= 0)
		return true;
	return read(STDIN_FILENO, &key, 1) == 1 && key != 'q';
}

static int show(struct ctl *c, bool tty)
{
	json_t *answer, *vm;
	size_t i;
	int r;

	r = ctl_ask(c, json_pack("{s:s}", "cmd", "status"), &answer);
	if (r != CTL_OK)
		return r;
	if (c->json) {
		json_dumpf(answer, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		fputs(tty ? CLEAR : "", stdout);
		table_status(answer);
		putchar('\n');
		json_array_foreach(json_object_get(answer, "vms"), i, vm)
			table_vm(vm);
	}
	fflush(stdout);
	json_decref(answer);
	return CTL_OK;
}

int ctl_top(struct ctl *c, int interval_ms, int turns)
{
	bool tty = isatty(STDOUT_FILENO);
	bool keys = tty && keys_on();
	int r = CTL_OK;

	for (int i = 0; !turns || i < turns; i++) {
		r = show(c, tty);
		if (r != CTL_OK)
			break;
		if (turns && i + 1 == turns)
			break;
		if (!wait_turn(interval_ms, keys))
			break;
	}
	if (keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved_mode);
	return r;
}
