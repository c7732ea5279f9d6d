import { readFileSync, writeFileSync } from 'node:fs';
import type { Netstate } from '../../../apis/egress/netstate.ts';
import type { NetProblem } from './problem.ts';

/** Kernel settings by path below /proc/sys; tests replace it. */
export interface SysctlPort {
  /** Null: there is no such setting. */
  read(path: string): string | null;
  write(path: string, value: string): void;
}

/** Those of the network namespace of this process. */
export const procSysctls: SysctlPort = {
  read(path) {
    try {
      return readFileSync(`/proc/sys/${path}`, 'utf8').trim();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
      throw error;
    }
  },
  write: (path, value) => writeFileSync(`/proc/sys/${path}`, value),
};

/** Sets what is different. The texts of `operations` are the commands that do the same. */
export function applySysctls(
  port: SysctlPort,
  sysctls: Netstate['sysctls'],
): { readonly operations: readonly string[]; readonly problems: readonly NetProblem[] } {
  const operations: string[] = [];
  const problems: NetProblem[] = [];
  for (const { path, value } of sysctls) {
    const text = `sysctl -w ${path}=${value}`;
    try {
      if (port.read(path) === value) continue;
      port.write(path, value);
      operations.push(text);
    } catch (error) {
      const { code = 'UNKNOWN', message } = error as NodeJS.ErrnoException;
      const way =
        code === 'EROFS' ? '. /proc/sys must be writable: the agent runs as a privileged container' : '';
      problems.push({ code, message: `${text}: ${message}${way}` });
    }
  }
  return { operations, problems };
}

/** A setting of the host that is not as egress gateways need it. nodewall never changes these. */
export interface SysctlFinding {
  readonly path: string;
  readonly found: string | null;
  readonly needed: string;
  readonly why: string;
}

/** What the host's settings keep from working. */
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
  ];
  return checks.flatMap(({ path, needed, isGood, why }) => {
    const found = port.read(path);
    return found === null || isGood(found) ? [] : [{ path, found, needed, why }];
  });
}
