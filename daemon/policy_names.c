// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The policy's vocabulary: stable names for JSON and metrics, sentences for
 * people. Text only; policy.c never looks at it.
 */
#include "policy.h"
#include "policy_priv.h"

static const char *const mode_names[] = {
	[VM_MODE_OFF] = "off",		 [VM_MODE_OBSERVE] = "observe",
	[VM_MODE_BALANCED] = "balanced", [VM_MODE_PERFORMANCE] = "performance",
	[VM_MODE_DENSITY] = "density",
};
static_assert(ARRAY_SIZE(mode_names) == VM_MODE_COUNT, "one name a mode");

static const char *const kind_names[] = {
	[DECISION_HOLD] = "hold",
	[DECISION_DIRECTIVE] = "directive",
	[DECISION_ACTION] = "action",
};
static_assert(ARRAY_SIZE(kind_names) == DECISION_COUNT, "one name a kind");

static const struct {
	const char *name, *text;
} reasons[] = {
	[REASON_OFF] = {"off", "This VM's mode is off: it is not looked at."},
	[REASON_NO_REPORT] = {"no-report",
			      "The guest agent has not reported, or not lately "
			      "enough to act on it."},
	[REASON_USER_PAUSED] = {"user-paused",
				"Paused by vmdefragctl: nothing runs and the "
				"guest has its own settings back."},
	[REASON_VM_STOPPED] = {"vm-stopped",
			       "The VM is not running, so nothing is started "
			       "in it."},
	[REASON_MIGRATING] = {"migrating",
			      "A migration or snapshot is under way: each page "
			      "moved would have to be copied again."},
	[REASON_NO_BACKEND] = {"no-backend",
			       "The guest offers no usable way to make free "
			       "blocks."},
	[REASON_PRESSURE] = {"pressure",
			     "The guest's tasks already wait for memory; "
			     "compaction would add to that."},
	[REASON_LOW_MEMORY] = {"low-memory",
			       "Too little free memory to compact in."},
	[REASON_ENOUGH] = {"enough",
			   "Enough free blocks are there; nothing to do."},
	[REASON_SHORTAGE] = {"shortage",
			     "The reserve is short because memory is short, "
			     "which compaction cannot mend."},
	[REASON_COOLDOWN] = {"cooldown",
			     "The last action here was a moment ago; its "
			     "effect is awaited first."},
	[REASON_BACKOFF] = {"backoff",
			    "The last actions here brought too little for "
			    "their cost; waiting longer each time."},
	[REASON_BUSY] = {"busy", "An action runs in this guest already."},
	[REASON_HEADROOM] = {"headroom",
			     "The reserve of free blocks is short and memory "
			     "is fragmented: blocks are made."},
	[REASON_REQUEST] = {"request", "Asked for by vmdefragctl."},
	[REASON_HOST_BASE] = {"host-base",
			      "the host has base pages under this guest and "
			      "cannot collapse them: blocks of 2 MiB would "
			      "gain little here"},
	[REASON_WATERMARKS] = {"watermarks",
			       "Watermarks and the kernel's own compaction are "
			       "set to match the reserve."},
};
static_assert(ARRAY_SIZE(reasons) == REASON_COUNT, "one text a reason");

const char *vm_mode_name(unsigned int mode)
{
	return mode < VM_MODE_COUNT ? mode_names[mode] : "?";
}

const char *decision_kind_name(unsigned int kind)
{
	return kind < DECISION_COUNT ? kind_names[kind] : "?";
}

const char *decision_reason_name(unsigned int reason)
{
	return reason < REASON_COUNT ? reasons[reason].name : "?";
}

const char *decision_reason_text(unsigned int reason)
{
	return reason < REASON_COUNT ? reasons[reason].text : "?";
}
