import assert from 'node:assert/strict';
import type { NflogPacket } from 'nftables-napi';
import type { CompiledRule, NodeState } from '../../apis/compiled.ts';
import { fakePacket, fakeRule, fakeState } from '../../test/fake/record.ts';
import { RecordReader } from './reader.ts';
import type { ConnectionRecord } from './record.ts';

const WALL = Date.parse('2026-11-21T15:00:00Z') * 1000 + 7;
const INTERFACES: Readonly<Record<number, [name: string, group: number]>> = {
  2: ['eth0', 0],
  7: ['cali1', 8],
  9: ['odd', 42],
};

function create(...rules: CompiledRule[]) {
  const reader = new RecordReader({
    node: 'node-0',
    interfaces: {
      nameOf: (index) => INTERFACES[index]?.[0] ?? null,
      groupOf: (index) => INTERFACES[index]?.[1] ?? null,
    },
    groupNames: new Map([[8, 'pods']]),
  });
  reader.learn(fakeState(...rules), 0);
  return Object.assign(reader, {
    one: (packet: NflogPacket) => reader.read([packet], WALL)[0]?.record as ConnectionRecord | undefined,
  });
}

describe('RecordReader', () => {
  const drop = fakeRule('drop-rest', { action: 'Drop' });

  it('records all fields of a connection', () => {
    const { one } = create(drop);
    assert.deepEqual(one(fakePacket(drop)), {
      time: '2026-11-21T15:00:00.000007Z',
      node: 'node-0',
      verdict: 'Drop',
      policy: 'p',
      apiGroup: 'nodewall.io',
      tier: 'securityops',
      rule: 'drop-rest',
      ruleIndex: 0,
      label: 'a label',
      direction: 'ingress',
      traffic: 'Host',
      src: '10.0.0.7',
      dst: '192.168.10.11',
      protocol: 'tcp',
      srcPort: 40_000,
      dstPort: 6443,
      interface: 'eth0',
      length: 60,
    });
  });

  it('uses the time of the packet if the kernel sends it', () => {
    assert.equal(
      create(drop).one(fakePacket(drop, { timestamp: WALL - 1_000_000 }))?.time,
      '2026-11-21T14:59:59.000007Z',
    );
  });

  it('uses the verdict of the packet, because the rule may have changed since', () => {
    const { one } = create(drop);
    const record = one(fakePacket({ ...drop, action: 'Reject', mode: 'Audit' }));
    assert.deepEqual([record?.verdict, record?.audit], ['Reject', true]);
  });

  it('names the interface by direction, and its group by the configuration', () => {
    const egress = fakeRule('out', { direction: 'egress' });
    const { one } = create(drop, egress);
    const at = (rule: CompiledRule, index: number | null) => {
      const record = one(
        fakePacket(
          rule,
          rule === egress ? { inputInterface: 2, outputInterface: index } : { inputInterface: index },
        ),
      );
      return [record?.interface, record?.interfaceGroup];
    };
    for (const rule of [drop, egress]) {
      assert.deepEqual(at(rule, 2), ['eth0', undefined]);
      assert.deepEqual(at(rule, 7), ['cali1', 'pods']);
      assert.deepEqual(at(rule, 9), ['odd', 42]);
      assert.deepEqual(at(rule, 77), ['#77', undefined]);
      assert.deepEqual(at(rule, null), [undefined, undefined]);
    }
  });

  it('records the destination before destination NAT', () => {
    const original = (destination: number[], destinationPort: number | null) => ({
      source: Uint8Array.of(1, 2, 3, 4),
      destination: Uint8Array.from(destination),
      protocol: 6,
      sourcePort: 1,
      destinationPort,
    });
    const { one } = create(drop);
    const asked = (tuple: NflogPacket['original']) => {
      const record = one(fakePacket(drop, { original: tuple }));
      return [record?.originalDst, record?.originalDstPort];
    };
    assert.deepEqual(asked(original([203, 0, 113, 1], 30_080)), ['203.0.113.1', 30_080]);
    assert.deepEqual(asked(original([192, 168, 10, 11], 30_080)), ['192.168.10.11', 30_080]);
    assert.deepEqual(asked(original([192, 168, 10, 11], 6443)), [undefined, undefined]);
    assert.deepEqual(asked(original([1], 6443)), [undefined, undefined]);
    assert.deepEqual(asked(null), [undefined, undefined]);
  });

  it('records packets that are not IP too', () => {
    const record = create(drop).one(fakePacket(drop, { payload: Uint8Array.of(1, 2, 3) }));
    assert.deepEqual([record?.rule, record?.src, record?.length], ['drop-rest', undefined, 3]);
  });

  it('knows a rule for a minute after its removal', () => {
    const reader = create(drop);
    reader.learn(fakeState(), 1000);
    assert.equal(reader.one(fakePacket(drop))?.rule, 'drop-rest');
    reader.learn(fakeState(), 60_000);
    assert.equal(reader.one(fakePacket(drop))?.rule, 'drop-rest');
    reader.learn(fakeState(), 61_000);
    assert.equal(reader.one(fakePacket(drop)), undefined);
    assert.deepEqual([reader.consumeUnknown(), reader.consumeUnknown()], [1, 0]);
  });

  it('records spoofed packets, which belong to no rule', () => {
    const packet = fakePacket(drop, { prefix: 'nodewall spoofed', inputInterface: 7 });
    const reader = create(drop);
    assert.deepEqual(reader.read([packet], WALL), [
      {
        id: 'spoofed',
        record: {
          time: '2026-11-21T15:00:00.000007Z',
          node: 'node-0',
          verdict: 'Drop',
          reason: 'spoofed',
          direction: 'ingress',
          src: '10.0.0.7',
          dst: '192.168.10.11',
          protocol: 'tcp',
          srcPort: 40_000,
          dstPort: 6443,
          interface: 'cali1',
          interfaceGroup: 'pods',
          length: 60,
        },
      },
    ]);
    assert.deepEqual(reader.suppressed('spoofed', 3, WALL), {
      time: '2026-11-21T15:00:00.000007Z',
      node: 'node-0',
      reason: 'spoofed',
      direction: 'ingress',
      suppressed: 3,
    });
    assert.equal(reader.consumeUnknown(), 0);
  });

  it('counts packets that no rule sent', () => {
    const reader = create(drop);
    const prefixes = [
      '',
      'ulogd',
      `nodewall ${drop.id} Explode`,
      'nodewall 000000000000 Drop',
      `nodewall ${drop.id} Drop audit `,
      `x nodewall ${drop.id} Drop`,
    ];
    for (const prefix of prefixes) assert.equal(reader.one(fakePacket(drop, { prefix })), undefined, prefix);
    assert.equal(reader.consumeUnknown(), prefixes.length);
  });

  describe('after', () => {
    const audit = (name: string, options = {}) => fakeRule(name, { mode: 'Audit', ...options });
    const [first, second, third] = [
      audit('first'),
      audit('second', { ruleIndex: 1 }),
      audit('third', { ruleIndex: 2 }),
    ];
    const other = audit('other', { policy: 'q' });
    const read = (state: NodeState, packets: readonly NflogPacket[]) => {
      const reader = create();
      reader.learn(state, 0);
      return reader.read(packets, WALL).map(({ record }) => (record as ConnectionRecord).after);
    };
    const again = { payload: fakePacket(first).payload.with(5, 99) };

    it('names the rule that would have decided', () => {
      const packets = [first, other, second, third].map((rule) => fakePacket(rule));
      assert.deepEqual(read(fakeState(first, other, second, third), packets), [
        undefined,
        undefined,
        'p/first',
        'p/first',
      ]);
    });

    it('distinguishes different packets', () => {
      const packets = [fakePacket(first), fakePacket(second, again), fakePacket(second)];
      assert.deepEqual(read(fakeState(first, second), packets), [undefined, undefined, 'p/first']);
    });

    it('distinguishes a repeated packet from the first one', () => {
      const packets = [first, second, second, first, second].map((rule) => fakePacket(rule));
      assert.deepEqual(read(fakeState(first, second), packets), [
        undefined,
        'p/first',
        undefined,
        undefined,
        'p/first',
      ]);
    });

    it('works across batches', () => {
      const reader = create(first, second);
      assert.equal(reader.one(fakePacket(first))?.after, undefined);
      assert.equal(reader.one(fakePacket(second))?.after, 'p/first');
    });
  });
});
