// SPDX-License-Identifier: Apache-2.0
/* A shared object that has nothing to do with us. */
int no_plugin_at_all(void);

int no_plugin_at_all(void) {
  return 1;
}
