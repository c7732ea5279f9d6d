import assert from 'node:assert/strict';
import { type Address, parseAddress } from '../../lib/net/address.ts';
import { egressTable, MASK, PODS, TAKEN, TUNNEL } from './egress-table.ts';
import { bucketOf } from './match.ts';
import type { Packet } from './packet.ts';
import { nextOf, type Path, pathTracer } from './path.ts';

function address(text: string): Address {
  return parseAddress(text) ?? assert.fail(text);
}

const value = (text: string): bigint => address(text).value;

/** The first packet of a connection of a pod to TCP port 443. */
function packet(src: string, dst: string, changes: Partial<Packet> = {}): Packet {
  return {
    direction: 'ingress',
    family: 4,
    src: value(src),
    dst: value(dst),
    protocol: 6,
    srcPort: 40000,
    dstPort: 443,
    isSyn: true,
    interface: { name: 'eth0', group: PODS },
    established: false,
    original: null,
    isForwarded: true,
    ...changes,
  };
}

/** The routing tables of a node whose rules send marked packets to the tunnel. */
const uplink = { name: 'eth0', group: 0, address: value('198.51.100.1') } as const;
const tunnel = { name: 'eth0', group: TUNNEL } as const;
const isSteered = (mark = 0): boolean => (mark & MASK) !== 0 && (mark & TAKEN) === 0;
const walk = pathTracer(egressTable(), ({ mark }) => (isSteered(mark) ? tunnel : uplink));

function text({ verdict, end, packet: { mark = 0, ctMark = 0, binding, src } }: Path): string {
  const marks = `marks ${mark.toString(16)} ${ctMark.toString(16)}`;
  const bound =
    binding == null ? 'not bound' : binding.from === binding.to ? 'bound to itself' : 'translated';
  return `${verdict}${end === null ? '' : ` in ${end.hook} by ${end.comment}`}, ${marks}, ${bound}, ${src.toString(16)}`;
}

describe('path: a source node', () => {
  it('sends the packets of a connection through a slot, the later ones by the mark of the connection', () => {
    const first = packet('10.1.0.7', '192.0.2.1');
    const path = walk(first);
    // The guard has removed the packet's mark: the outer packet would inherit it.
    assert.equal(text(path), 'Allow, marks 0 7000000, bound to itself, a010007');
    assert.deepEqual([path.packet.output?.group, path.packet.maxSegment], [TUNNEL, 'rt mtu']);
    const next = walk(nextOf(path, first));
    assert.equal(text(next), 'Allow, marks 0 7000000, bound to itself, a010007');
    assert.deepEqual(next.visited, [
      'egress-untrack',
      'egress-steer',
      'egress-slot-7',
      'egress-guard',
      'egress-seal',
    ]);
    assert.equal(next.packet.maxSegment, undefined);
  });

  it('spreads by the hash of both addresses', () => {
    const slots = new Set<string>();
    for (let last = 0; last < 40; last++) {
      const dst = `203.0.113.${last}`;
      const { visited, packet: sent } = walk(packet('10.1.0.7', dst));
      const key = Buffer.from([10, 1, 0, 7, 203, 0, 113, last]);
      const slot = bucketOf(key, 128, 0) % 3 === 0 ? 9 : 7;
      assert.ok(visited.includes(`egress-slot-${slot}`), dst);
      assert.equal(sent.ctMark, slot << 24);
      slots.add(`${slot}`);
    }
    assert.equal(slots.size, 2);
  });

  it('leaves alone what is inside, known, or of no range', () => {
    for (const [src, dst] of [
      ['10.1.0.7', '10.9.9.9'],
      ['10.1.0.7', '192.168.7.7'],
      ['10.1.0.8', '192.0.2.1'],
      ['10.1.0.7', '203.0.115.1'],
    ] as const) {
      assert.match(text(walk(packet(src, dst))), /^Allow, marks 0 0, not bound/, `${src} ${dst}`);
    }
  });

  it('drops an unknown pod and a forged source, and resets where no address can be had', () => {
    assert.match(text(walk(packet('10.1.0.6', '192.0.2.1'))), /^Drop in prerouting by unknown pod/);
    const forged = walk(packet('10.1.0.7', '192.0.2.1', { lacksRouteBack: true }));
    assert.match(text(forged), /^Drop in prerouting by not an address of this interface/);
    assert.equal(walk(packet('10.1.0.7', '203.0.114.0')).verdict, 'Reject');
    assert.equal(walk(packet('10.1.0.7', '203.0.114.0', { protocol: 17 })).verdict, 'Drop');
  });

  it('drops what is steered where the way is missing', () => {
    const lost = pathTracer(egressTable(), () => uplink);
    assert.match(text(lost(packet('10.1.0.7', '192.0.2.1'))), /^Drop in forward by steered, and no way/);
    const none = pathTracer(egressTable(), () => null);
    assert.equal(none(packet('10.1.0.7', '192.0.2.1')).end?.chain, 'no route');
  });
});

describe('path: a gateway', () => {
  const arriving = { interface: tunnel, sourceMac: '0e:00:00:00:00:02' };

  it('translates what it serves, by the source, and sends the answers back with the mark', () => {
    const first = packet('10.2.0.5', '192.0.2.1', arriving);
    const path = walk(first);
    const own = bucketOf(Buffer.from([10, 2, 0, 5]), 2, 0) === 0 ? '192.0.2.10' : '192.0.2.11';
    assert.equal(text(path), `Allow, marks 41000000 41000000, translated, ${value(own).toString(16)}`);
    assert.equal(path.packet.maxSegment, 1360);
    const answer = walk({
      ...nextOf(path, packet('192.0.2.1', own, { interface: uplink })),
      ctDirection: 'reply',
    });
    assert.equal(answer.packet.dst, value('10.2.0.5'));
    assert.equal(text(answer), `Allow, marks 41000000 41000000, translated, c0000201`);
    assert.equal(walk(nextOf(path, first)).packet.src, value(own));
  });

  it('drops a pod that it does not serve, or that another node claims', () => {
    for (const changes of [{ ...arriving, sourceMac: '0e:00:00:00:00:03' }, { interface: tunnel }]) {
      assert.match(text(walk(packet('10.2.0.5', '192.0.2.1', changes))), /^Drop in prerouting by not a pod/);
    }
    assert.match(text(walk(packet('10.2.0.6', '192.0.2.1', arriving))), /^Drop in prerouting by not a pod/);
  });

  it('translates its own pods to the address of the interface', () => {
    const path = walk(packet('10.1.0.9', '192.0.2.1'));
    assert.equal(text(path), 'Allow, marks 42000000 42000000, translated, c6336401');
    const lacking = pathTracer(egressTable(), () => ({ name: 'eth0', group: 0 }));
    assert.throws(() => lacking(packet('10.1.0.9', '192.0.2.1')), /address of the outgoing interface/);
  });

  it('drops what it has taken and nothing translates', () => {
    const unbound = packet('10.1.0.9', '192.0.2.1', { established: true, ctMark: TAKEN | 0x02000000 });
    assert.match(text(walk(unbound)), /^Drop in postrouting by not translated/);
  });

  it('does not track the tunnel itself', () => {
    const outer = packet('198.51.100.2', '198.51.100.3', {
      protocol: 17,
      dstPort: 7790,
      interface: uplink,
    });
    assert.equal(walk(outer).packet.isUntracked, true);
    assert.equal(text(walk(outer)), 'Allow, marks 0 0, not bound, c6336402');
  });
});
