/* SPDX-License-Identifier: Apache-2.0
 *
 * What filter.bpf.c takes: set by xdp/program.cc before the program is loaded. C, for both.
 */
#pragma once

#include <linux/types.h>

struct rubato_xdp_rules {
  __u32 address4;    /* in network order */
  __u32 address6[4]; /* the same */
  __u32 workers;
  __u16 port;  /* the first; in the machine's order */
  __u16 ports; /* how many from there on */
  __u8 takes_ipv4;
  __u8 takes_ipv6;
  __u8 mac[6]; /* of the interface */
};
