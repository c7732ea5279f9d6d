import { networkInterfaces } from 'node:os';
import { hostSysctls, type SysctlPort } from './apply/sysctls.ts';

/** Device of Calico's eBPF dataplane. Its packets of pods do not pass the hooks of netfilter. */
const CALICO_EBPF = 'bpfin.cali';
/** Device of Cilium, whose packets of pods pass netfilter only with bpf.hostLegacyRouting. */
const CILIUM = 'cilium_host';

/** Why egress gateways cannot work on this machine; null: nothing is known. */
export function egressRefusal(links = Object.keys(networkInterfaces())): string | null {
  if (!links.includes(CALICO_EBPF)) return null;
  return `packets of pods bypass netfilter: this node has Calico's eBPF dataplane (device ${CALICO_EBPF}). Use its nftables or iptables dataplane, or turn the gate off`;
}

/**
 * Tells what keeps egress gateways from working, and does not let anything leave by another way.
 */
export function warnOfHost(
  port: Pick<SysctlPort, 'read'>,
  log: { warn(message: string, fields: object): unknown },
  links = Object.keys(networkInterfaces()),
): void {
  for (const { path, found, needed, why } of hostSysctls(port)) {
    // The tunnel's device has its own value.
    if (path.endsWith('rp_filter')) continue;
    log.warn('a setting of this machine keeps egress gateways from working; nodewall does not change it', {
      setting: path,
      found,
      needed,
      why,
    });
  }
  if (links.includes(CILIUM)) {
    log.warn(
      'this node has Cilium: packets of pods pass netfilter, and egress gateways work, only with bpf.hostLegacyRouting=true',
      { link: CILIUM },
    );
  }
}
