import assert from 'node:assert/strict';
import { type ConntrackBatch, type ConntrackEntry, type ConntrackEvent, NftError } from 'nftables-napi';
import type { NodeEgress } from '../../../apis/egress/node-egress.ts';
import { parseAddress } from '../../../lib/net/address.ts';
import { packAddress } from '../../../lib/net/member-set.ts';
import { fakeNodeEgress } from '../../../test/fake/egress-objects.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { ENDED, takeMark } from '../render/marks.ts';
import { BindingRecorder } from './binding-recorder.ts';
import type { EgressRecord } from './egress-record.ts';

const REMOTE = '10.244.1.7';
const LOCAL = '10.244.2.8';
const EIP = '198.51.100.20';
const SERVER = '203.0.113.5';
const EVERYTHING = { first: 0n, last: 2n ** 32n - 1n };

function bytes(text: string): Uint8Array {
  const address = parseAddress(text);
  assert.ok(address !== null);
  return packAddress(address);
}

function event(src: string, changes: Partial<ConntrackEvent> = {}): ConntrackEvent {
  const tuple = (from: string, to: string, sourcePort: number, destinationPort: number) => ({
    source: bytes(from),
    destination: bytes(to),
    sourcePort,
    destinationPort,
    icmpType: null,
    icmpCode: null,
  });
  const entry: ConntrackEntry = {
    family: 4,
    protocol: 6,
    status: 14,
    mark: takeMark(1),
    tcpState: 3,
    labels: new Uint8Array(0),
    identity: [],
    original: tuple(src, SERVER, 40_000, 443),
    reply: tuple(SERVER, EIP, 443, 50_000),
  };
  return { event: 'begun', entry, id: 77, bytes: null, ...changes };
}

const FAILURE = { code: 'EBADF', message: 'bad', operation: null } as const;
const policy = { kind: 'EgressPolicy', apiGroup: 'nodewall.io', namespace: 'shop', name: 'bank' } as const;
const gateway: NodeEgress = fakeNodeEgress({
  takes: new Map([[1, { kind: 'floating', ipv4: [EIP], ipv6: [] }]]),
  arrivals: new Map([[REMOTE, { node: 'worker-1', takes: [{ range: EVERYTHING, take: 1 }] }]]),
  sources: new Map([[LOCAL, 'c']]),
  classes: new Map([['c', { id: 'c', ipv4: [{ range: EVERYTHING, outcome: 'o' }], ipv6: [] }]]),
  outcomes: new Map([['o', { id: 'o', policy, audited: [], action: { kind: 'take', take: 1 } }]]),
});

function bed() {
  const clock = fakeClock();
  const lines: EgressRecord[] = [];
  const counts: string[] = [];
  let lost = 0;
  let tell: (batch: Partial<ConntrackBatch>) => void = () => assert.fail('not open');
  let opened = 0;
  const recorder = new BindingRecorder({
    node: 'edge-1',
    clock,
    log: { error: (message) => counts.push(message), warn() {}, info() {} },
    openMonitor({ mark, mask }, listener) {
      assert.deepEqual([mark, mask], [0x40000000, 0x40000000]);
      opened++;
      tell = (batch) => listener({ events: [], overrun: false, error: null, ...batch });
      return { close() {} };
    },
    openWriter: () => ({
      write: (record) => lines.push(record) > 0,
      consumeLost() {
        const count = lost;
        lost = 0;
        return count;
      },
      close: async () => {},
    }),
    counted: (outcome, count) => void (count > 0 && counts.push(`${outcome} ${count}`)),
    troubled: (trouble) => counts.push(trouble),
  });
  return {
    clock,
    recorder,
    lines,
    counts,
    tell: (batch: Partial<ConntrackBatch>) => tell(batch),
    lose: (count: number) => {
      lost = count;
    },
    opened: () => opened,
  };
}

describe('records of a gateway', () => {
  it('are not begun on a node that is no gateway', () => {
    const { recorder, opened, lines } = bed();
    recorder.enforced(null);
    recorder.enforced(fakeNodeEgress());
    assert.deepEqual([opened(), lines], [0, []]);
  });

  it('have the pod, the address that the destination sees, and the bytes at the end', () => {
    const { recorder, tell, lines } = bed();
    recorder.enforced(gateway);
    tell({
      events: [
        event(REMOTE),
        event(REMOTE, { event: 'ended', bytes: { original: 900, reply: 5000 } }),
        event(LOCAL),
        event('10.244.9.9'),
      ],
    });
    const texts = lines.map(({ time, ...line }) => {
      assert.match(time, /^\d{4}-.*\.\d{6}Z$/);
      return line;
    });
    const common = { node: 'edge-1', id: 77, protocol: 'tcp', srcPort: 40_000 };
    const seen = { address: EIP, port: 50_000, dst: SERVER, dstPort: 443 };
    assert.deepEqual(texts, [
      { node: 'edge-1', event: 'gap', reason: 'start' },
      { ...common, event: 'begun', src: REMOTE, podNode: 'worker-1', ...seen },
      { ...common, event: 'ended', src: REMOTE, podNode: 'worker-1', ...seen, bytesOut: 900, bytesIn: 5000 },
      { ...common, event: 'begun', src: LOCAL, podNode: 'edge-1', policy: 'EgressPolicy shop/bank', ...seen },
      { ...common, event: 'begun', src: '10.244.9.9', ...seen },
    ]);
  });

  it('have no connection that was reset on its way to another gateway', () => {
    const { recorder, tell, lines } = bed();
    recorder.enforced(gateway);
    recorder.enforced(null);
    const { entry, ...rest } = event(LOCAL, { event: 'ended' });
    const reply = { ...entry.reply, destination: entry.original.source };
    tell({
      events: [{ ...rest, entry: { ...entry, mark: ENDED, reply } }, event(LOCAL, { event: 'ended' })],
    });
    assert.deepEqual(
      lines.map((line) => line.event),
      ['gap', 'ended'],
    );
  });

  it('say what is missing: discarded events once a second, and lines that were not written', () => {
    const { recorder, tell, lines, counts, clock, lose } = bed();
    recorder.enforced(gateway);
    for (let i = 0; i < 10; i++) tell({ overrun: true });
    clock.pass(1_000);
    lose(3);
    tell({ events: [event(REMOTE)] });
    assert.deepEqual(
      lines.map((line) => (line.event === 'gap' ? `${line.reason} ${line.lost ?? ''}` : line.event)),
      ['start ', 'overrun ', 'overrun ', 'begun', 'lost 3'],
    );
    assert.deepEqual(counts, [...new Array(10).fill('overrun'), 'begun 1', 'lost 3']);
  });

  it('go on after the monitor failed, with a gap', () => {
    const { recorder, tell, lines, clock, opened, counts } = bed();
    recorder.enforced(gateway);
    tell({ error: new NftError([FAILURE]) });
    assert.match(counts.join(), /^failed,cannot record/);
    clock.pass(60_000);
    assert.equal(opened(), 2);
    assert.deepEqual(
      lines.map(({ event: kind }) => kind),
      ['gap', 'gap'],
    );
  });
});
