import assert from 'node:assert/strict';
import { hostSysctls } from './host-settings.ts';

describe('hostSysctls', () => {
  it('names each setting that keeps egress gateways from working, and no other', () => {
    const bad: Readonly<Record<string, string>> = {
      'net/ipv4/ip_forward': '0',
      'net/ipv6/conf/all/forwarding': '0',
      'net/netfilter/nf_conntrack_tcp_loose': '0',
      'net/ipv4/conf/all/arp_ignore': '8',
    };
    const good: Readonly<Record<string, string>> = {
      'net/ipv4/ip_forward': '1',
      'net/ipv6/conf/all/forwarding': '1',
      'net/netfilter/nf_conntrack_tcp_loose': '1',
      'net/ipv4/conf/all/arp_ignore': '1',
    };
    const findings = hostSysctls({ read: (path) => bad[path] ?? null });
    assert.deepEqual(
      findings.map(({ path, found }) => [path, found]),
      Object.entries(bad),
    );
    assert.deepEqual(hostSysctls({ read: (path) => good[path] ?? null }), []);
    assert.deepEqual(hostSysctls({ read: () => null }), []);
  });
});
