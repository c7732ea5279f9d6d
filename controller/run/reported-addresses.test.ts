import assert from 'node:assert/strict';
import type { NodeReport } from '../../apis/node-report.ts';
import { NO_OBJECTS } from '../../apis/objects.ts';
import { systemClock } from '../../lib/process/clock.ts';
import type { Log } from '../../lib/process/log.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import type { NodeEvent } from '../status/node-events.ts';
import { ReportedAddresses } from './reported-addresses.ts';

const report = (node: string, ...hostAddresses: string[]): NodeReport => ({
  node,
  revision: null,
  enforced: null,
  enabled: false,
  failing: [],
  policies: 0,
  hostAddresses,
  version: '0.0.0',
  dataplane: 'nftables',
  time: '2026-01-01T00:00:00Z',
});

const objects = {
  ...NO_OBJECTS,
  nodes: ['a', 'b'].map((name) => ({ kind: 'Node' as const, name, labels: {}, addresses: [] })),
};

const made = (
  log: Log,
  changed: () => Promise<void>,
  event: (node: string, event: NodeEvent) => void = () => {},
): ReportedAddresses =>
  new ReportedAddresses({ log, clock: systemClock, nodeCIDRs: [], changed, delayed: () => {}, event });

describe('ReportedAddresses', () => {
  it('calls back once for many reports, and not if nothing is new', async () => {
    let changes = 0;
    let changed = Promise.withResolvers<void>();
    const reported = made(undefined as never, async () => {
      changes++;
      changed.resolve();
    });
    reported.on(objects);
    reported.receive(report('a', '192.0.2.1'));
    reported.receive(report('b', '192.0.2.2'));
    await changed.promise;
    assert.equal(changes, 1);
    const [a, b] = reported.on(objects).nodes;
    assert.deepEqual([a?.reportedAddresses, b?.reportedAddresses], [['192.0.2.1'], ['192.0.2.2']]);
    changed = Promise.withResolvers();
    reported.receive(report('a', '192.0.2.1'));
    reported.receive(report('b', '192.0.2.3'));
    await changed.promise;
    assert.equal(changes, 2);
    await reported.close();
  });

  it('gives Nodes the WireGuard keys of their agents, and each key to one', async () => {
    const lines: unknown[] = [];
    const log = { warn: (message: string, { node }: { node: string }) => lines.push([message, node]) };
    let changed = Promise.withResolvers<void>();
    const events: unknown[] = [];
    const reported = made(
      log as unknown as Log,
      async () => changed.resolve(),
      (...event) => events.push(event),
    );
    reported.on(objects);
    const keysOf = (of = objects) => reported.on(of).nodes.map(({ tunnelKey }) => tunnelKey);
    reported.receive({ ...report('a'), egress: { key: 'one' } });
    await changed.promise;
    assert.deepEqual(keysOf(), ['one', undefined]);
    reported.receive({ ...report('b'), egress: { key: 'one' } });
    reported.receive({ ...report('b'), egress: { key: 'one' } });
    reported.receive({ ...report('c'), egress: { key: 'three' } });
    assert.deepEqual(keysOf(), ['one', undefined]);
    assert.deepEqual(lines, [
      ['the agent reports the WireGuard key of another Node; it does not count', 'b'],
    ]);
    const note =
      'the agent reports the WireGuard key of Node a; it does not count, and the node has no encrypted tunnel: remove the file wireguard-key of its state directory, and restart its agent';
    assert.deepEqual(events, [['b', { type: 'Warning', reason: 'NodewallKeyRefused', note }]]);
    // A report that says nothing of it takes no key away.
    changed = Promise.withResolvers();
    reported.receive(report('a'));
    reported.receive({ ...report('b'), egress: { key: 'two' } });
    await changed.promise;
    assert.deepEqual(keysOf(), ['one', 'two']);
    // A Node that is made anew has none, and another one may have it.
    keysOf({ ...objects, nodes: objects.nodes.slice(1) });
    assert.deepEqual(keysOf(), [undefined, 'two']);
    await reported.close();
  });

  it('warns once for each Node with too many addresses', async () => {
    const lines: unknown[] = [];
    const log = { warn: (_message: string, fields: object) => lines.push(fields) } as unknown as Log;
    const reported = made(log, async () => {});
    reported.on(objects);
    const many = Array.from({ length: 70 }, (_, i) => `192.0.2.${i}`);
    for (const node of ['a', 'a', 'b']) reported.receive(report(node, ...many));
    assert.deepEqual(lines, [
      { node: 'a', ignored: 6 },
      { node: 'b', ignored: 6 },
    ]);
    await reported.close();
  });

  it('forgets what waits of a deleted Node: another machine may get its name', async () => {
    const clock = fakeClock();
    const log = { warn() {} } as unknown as Log;
    const reported = new ReportedAddresses({ log, clock, nodeCIDRs: [], async changed() {}, delayed() {} });
    const addressesOf = (nodes = objects.nodes) =>
      reported.on({ ...objects, nodes }).nodes.map(({ reportedAddresses = [] }) => reportedAddresses);
    addressesOf();
    const many = Array.from({ length: 12 }, (_, i) => `192.0.2.${i + 1}`);
    for (const i of many.keys()) reported.receive(report('a', ...many.slice(0, i + 1)));
    assert.deepEqual(addressesOf()[0]?.length, 10, 'the rest waits');
    const [a, b] = objects.nodes;
    assert.ok(a !== undefined && b !== undefined);
    assert.deepEqual(addressesOf([b]), [[]]);
    assert.deepEqual(addressesOf([{ ...a }, b]), [[], []]);
    clock.pass(20_000);
    assert.deepEqual(addressesOf([{ ...a }, b]), [[], []]);
    await reported.close();
  });
});
