import assert from 'node:assert/strict';
import { egressRefusal, warnOfFlowtables, warnOfHost } from './host-settings.ts';

describe('checks of the host for egress gateways', () => {
  it("refuse Calico's eBPF dataplane, by name", () => {
    assert.equal(egressRefusal(['lo', 'cali123', 'cilium_host']), null);
    assert.match(egressRefusal(['lo', 'bpfin.cali']) ?? '', /bypass netfilter.*Calico/);
  });

  it('tell settings that are in the way, and Cilium', () => {
    const warned = (values: Readonly<Record<string, string>>, links: readonly string[]): string[] => {
      const lines: string[] = [];
      const log = {
        warn: (message: string, fields?: object) => void lines.push(`${message} ${JSON.stringify(fields)}`),
      };
      warnOfHost({ read: (path) => values[path] ?? null }, log, [...links]);
      return lines;
    };
    assert.deepEqual(warned({ 'net/ipv4/ip_forward': '1', 'net/ipv4/conf/all/rp_filter': '1' }, ['lo']), []);
    assert.match(warned({ 'net/ipv4/ip_forward': '0' }, [])[0] ?? '', /net\/ipv4\/ip_forward.*not forwarded/);
    assert.match(warned({}, ['cilium_host'])[0] ?? '', /hostLegacyRouting/);
  });

  it('tell flowtables', async () => {
    const told: unknown[] = [];
    const log = { warn: (_: string, fields: object) => void told.push(fields) };
    await warnOfFlowtables(async () => [], log);
    await warnOfFlowtables(async () => ['inet fast-path fast'], log);
    assert.deepEqual(told, [{ flowtables: ['inet fast-path fast'] }]);
  });
});
