#include "vm.h"
void vm_qmp_tick(struct vm *v, uint64_t now_us){(void)v;(void)now_us;}
void vm_qmp_close(struct vm *v){(void)v;}
void vm_qmp_state(const struct vm *v, struct policy_snapshot *s){(void)v;(void)s;}
const char *vm_qmp_state_name(const struct vm *v){(void)v;return "unknown";}
