import { readFileSync, writeFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import type { IPv4Setting, RouteSocket } from 'nftables-napi';
import type { Netstate } from '../../../apis/egress/netstate.ts';
import type { NetProblem, NetstateResult } from './kernel-object.ts';

/** Kernel settings by path below /proc/sys; tests replace it. */
export interface SysctlPort {
  /** Null: there is no such setting. */
  read(path: string): string | null;
  write(path: string, value: string): Promise<void>;
}

/** A RouteSocket can set these. */
const BY_NETLINK = /^net\/ipv4\/conf\/([^/]+)\/(rp_filter|src_valid_mark)$/;

/**
 * Those of the network namespace of this process. In a container, and under systemd's
 * ProtectKernelTunables=, /proc/sys is read-only: what netlink can set is set by netlink.
 */
export function kernelSysctls(socket: Pick<RouteSocket, 'setIPv4'>): SysctlPort {
  return {
    read: readSysctl,
    async write(path, value) {
      const [, link, setting] = BY_NETLINK.exec(path) ?? [];
      if (link === undefined) writeFileSync(`/proc/sys/${path}`, value);
      else await socket.setIPv4(link, setting as IPv4Setting, Number(value));
    },
  };
}

export function readSysctl(path: string): string | null {
  try {
    return readFileSync(`/proc/sys/${path}`, 'utf8').trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/** Sets what is different. The texts of `operations` are the commands that do the same. */
export async function applySysctls(port: SysctlPort, sysctls: Netstate['sysctls']): Promise<NetstateResult> {
  const operations: string[] = [];
  const problems: NetProblem[] = [];
  for (const { path, value } of sysctls) {
    const text = `sysctl -w ${path}=${value}`;
    try {
      if (port.read(path) === value) continue;
      await port.write(path, value);
      operations.push(text);
    } catch (error) {
      const { code = 'UNKNOWN', message } = error as NodeJS.ErrnoException;
      const way =
        code === 'EROFS'
          ? `. /proc/sys is read-only for the agent. Set it on the host, and ${defaultOf(path)} for the time after a restart`
          : '';
      problems.push({ code, message: `${text}: ${message}${way}` });
    }
  }
  return { operations, problems };
}

/** The setting that new devices get. */
function defaultOf(path: string): string {
  return path.replace(/\/conf\/[^/]+\//, '/conf/default/');
}

/** A setting of the host that is not as egress gateways need it. nodewall never changes these. */
interface SysctlFinding {
  readonly path: string;
  readonly found: string | null;
  readonly needed: string;
  readonly why: string;
}

/** Settings of the host that keep egress gateways from working. */
export function hostSysctls(port: Pick<SysctlPort, 'read'>): SysctlFinding[] {
  const checks = [
    {
      path: 'net/ipv4/ip_forward',
      needed: '1',
      isGood: (found: string) => found === '1',
      why: 'IPv4 packets of pods are not forwarded',
    },
    {
      path: 'net/ipv6/conf/all/forwarding',
      needed: '1',
      isGood: (found: string) => found === '1',
      why: 'IPv6 packets of pods are not forwarded',
    },
    {
      path: 'net/netfilter/nf_conntrack_tcp_loose',
      needed: '1',
      isGood: (found: string) => found !== '0',
      why: 'TCP connections end when their address moves to another gateway',
    },
    {
      path: 'net/ipv4/conf/all/arp_ignore',
      needed: '0 to 3',
      isGood: (found: string) => found !== '8',
      why: 'the kernel does not answer ARP requests for floating addresses',
    },
  ];
  return checks.flatMap(({ path, needed, isGood, why }) => {
    const found = port.read(path);
    return found === null || isGood(found) ? [] : [{ path, found, needed, why }];
  });
}

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

/**
 * Warns where flowtables may take connections of pods past the rules that send them by their
 * gateways.
 */
export async function warnOfFlowtables(
  list: () => Promise<readonly string[]>,
  log: { warn(message: string, fields: object): unknown },
): Promise<void> {
  const names = await list().catch(() => []);
  if (names.length === 0) return;
  log.warn(
    'this node has flowtables: IPv4 connections by egress gateways may hang once these forward them; leave pods out of them',
    { flowtables: names },
  );
}
