/* SPDX-License-Identifier: Apache-2.0
 *
 * The XDP program of an AF_XDP wire: whole UDP datagrams to the interface's Ethernet address
 * and to the server's address and ports, from an address of another host, go to the socket of the
 * worker that the table names for their group, everything else goes to the kernel:
 * ARP, ICMP, TCP, fragments, IP options, other ports. Its rules are set before it is loaded. A
 * group is the low seven bits of the sender's port, as in datapath/datagram.h. Without a socket at
 * that place, the datagram goes to the kernel too.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "filter_rules.h"

#define RUBATO_GROUPS 128
#define RUBATO_FRAGMENT 0x3fff

volatile const struct rubato_xdp_rules rules = {0};

struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} sockets SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, RUBATO_GROUPS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, __u64);
} groups SEC(".maps");

static __always_inline int is_ours6(const struct ipv6hdr *ip) {
  const __u32 *to = ip->daddr.in6_u.u6_addr32;
  __u32 differs = 0;
  for (int i = 0; i < 4; ++i) differs |= to[i] ^ rules.address6[i];
  return differs == 0;
}

/* Only one host may have sent it, and that is not this one: a reply goes there. */
static __always_inline int is_host4(__u32 from) {
  const __u32 first = bpf_ntohl(from) >> 24;
  return first != 0 && first != 127 && first < 224 && from != rules.address4;
}

static __always_inline int is_host6(const struct ipv6hdr *ip) {
  const __u32 *from = ip->saddr.in6_u.u6_addr32;
  __u32 differs = 0;
  for (int i = 0; i < 4; ++i) differs |= from[i] ^ rules.address6[i];
  if ((bpf_ntohl(from[0]) >> 24) == 0xff || differs == 0) return 0;
  return (from[0] | from[1] | from[2]) != 0 || bpf_ntohl(from[3]) > 1; /* not :: nor ::1 */
}

/* And from one interface: a reply to a group would go to all hosts of the link. */
static __always_inline int is_to_us(const struct ethhdr *ethernet) {
  int differs = ethernet->h_source[0] & 1;
  for (int i = 0; i < 6; ++i) differs |= ethernet->h_dest[i] ^ rules.mac[i];
  return differs == 0;
}

SEC("xdp")
int filter(struct xdp_md *context) {
  void *at = (void *)(long)context->data;
  void *end = (void *)(long)context->data_end;
  struct ethhdr *ethernet = at;
  at += sizeof *ethernet;
  if (at > end || !is_to_us(ethernet)) return XDP_PASS;
  __u16 type = ethernet->h_proto;
  if (type == bpf_htons(ETH_P_8021Q)) {
    __u16 *tag = at;
    at += 4;
    if (at > end) return XDP_PASS;
    type = tag[1];
  }
  if (type == bpf_htons(ETH_P_IP)) {
    struct iphdr *ip = at;
    at += sizeof *ip;
    if (at > end || !rules.takes_ipv4) return XDP_PASS;
    if (ip->ihl != 5 || ip->protocol != IPPROTO_UDP) return XDP_PASS;
    if ((ip->frag_off & bpf_htons(RUBATO_FRAGMENT)) != 0) return XDP_PASS;
    if (ip->daddr != rules.address4 || !is_host4(ip->saddr)) return XDP_PASS;
  } else if (type == bpf_htons(ETH_P_IPV6)) {
    struct ipv6hdr *ip = at;
    at += sizeof *ip;
    if (at > end || !rules.takes_ipv6) return XDP_PASS;
    if (ip->nexthdr != IPPROTO_UDP || !is_ours6(ip) || !is_host6(ip)) return XDP_PASS;
  } else {
    return XDP_PASS;
  }
  struct udphdr *udp = at;
  if ((void *)(udp + 1) > end) return XDP_PASS;
  if ((__u16)(bpf_ntohs(udp->dest) - rules.port) >= rules.ports) return XDP_PASS;
  __u32 group = bpf_ntohs(udp->source) & (RUBATO_GROUPS - 1);
  __u64 *worker = bpf_map_lookup_elem(&groups, &group);
  if (worker == 0) return XDP_PASS;
  __u32 at_queue = context->rx_queue_index * rules.workers;
  return bpf_redirect_map(&sockets, at_queue + (__u32)*worker, XDP_PASS);
}

char filter_license[] SEC("license") = "Apache-2.0";
