import assert from 'node:assert/strict';
import { NodeRuleReconciler } from '../../agent/apply/reconciler.ts';
import type { Ruleset } from '../../agent/render/ruleset.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { EGRESS_TABLES, egressTable, MASK, PODS, TAKEN, TUNNEL } from '../tracer/egress-table.ts';
import type { Packet } from '../tracer/packet.ts';
import { type Path, pathTracer } from '../tracer/path.ts';
import { fakeKernel } from './fake-kernel.ts';
import { asRuleset } from './steps.ts';

const value = (text: string): bigint => parseAddress(text)?.value ?? assert.fail(text);
const uplink = { name: 'eth0', group: 0, address: value('198.51.100.1') } as const;
const tunnel = { name: 'eth0', group: TUNNEL } as const;

function packet(src: string, dst: string, changes: Partial<Packet> = {}): Packet {
  return {
    direction: 'ingress',
    family: 4,
    src: value(src),
    dst: value(dst),
    protocol: 17,
    srcPort: 40000,
    dstPort: 53,
    interface: { name: 'eth0', group: PODS },
    established: false,
    original: null,
    isForwarded: true,
    ...changes,
  };
}

/** First packets from pods and through the tunnel, and later ones with each mark. */
const PACKETS: readonly Packet[] = [
  ...['10.1.0.6', '10.1.0.7', '10.1.0.8', '10.1.0.9'].flatMap((src) =>
    ['192.0.2.1', '10.9.9.9', '203.0.113.1', '203.0.113.2', '203.0.114.0', '203.0.116.9'].flatMap((dst) => [
      packet(src, dst),
      packet(src, dst, { protocol: 6 }),
      ...[0x07000000, 0x09000000, TAKEN | 0x02000000].map((ctMark) =>
        packet(src, dst, { established: true, ctMark, binding: { from: value(src), to: 0n } }),
      ),
    ]),
  ),
  ...['10.2.0.4', '10.2.0.5', '10.2.0.6'].map((src) =>
    packet(src, '192.0.2.1', { interface: tunnel, sourceMac: '0e:00:00:00:00:02' }),
  ),
];

function paths(ruleset: Ruleset): string[] {
  const walk = pathTracer(ruleset, ({ mark = 0 }) =>
    (mark & MASK) !== 0 && (mark & TAKEN) === 0 ? tunnel : uplink,
  );
  return PACKETS.map((one) => text(walk(one)));
}

/** What can be seen from outside, without the chains that it took. */
function text({ verdict, end, packet: { mark, ctMark, src, binding, output } }: Path): string {
  const seen = end === null ? [mark, ctMark, src, binding?.to, output?.group] : [end.hook];
  return [verdict, ...seen].join(' ');
}

describe('while tables of egress gateways are applied', () => {
  for (const [i, from] of EGRESS_TABLES.entries()) {
    it(`a packet goes as before or as after, from table ${i} to each other`, async () => {
      for (const to of EGRESS_TABLES) {
        const kernel = fakeKernel();
        const reconciler = new NodeRuleReconciler(kernel);
        await reconciler.apply(egressTable(from));
        const [before, after] = [paths(egressTable(from)), paths(egressTable(to))];
        const wrong: string[] = [];
        kernel.onCommit(() => {
          for (const [place, path] of paths(asRuleset(kernel.table())).entries()) {
            if (path !== before[place] && path !== after[place])
              wrong.push(`${path}, not ${before[place]} or ${after[place]}`);
          }
        });
        await reconciler.apply(egressTable(to));
        assert.deepEqual(wrong, []);
        assert.deepEqual(paths(asRuleset(kernel.table())), after);
      }
    });
  }
});
