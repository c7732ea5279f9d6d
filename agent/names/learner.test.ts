import assert from 'node:assert/strict';
import type { Answer } from 'dns-packet';
import fc from 'fast-check';
import { matchesName } from '../../apis/names.ts';
import { answerPacket, inIP, questionPacket } from '../../test/dns/packet.ts';
import { answersTo } from '../../test/dns/zone.ts';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { addressesFor } from './answer-packet.ts';
import { learner } from './learner.ts';

const A = (name: string, data: string, ttl = 30): Answer => ({ type: 'A', name, ttl, data });
const AAAA = (name: string, data: string, ttl = 30): Answer => ({ type: 'AAAA', name, ttl, data });
const CNAME = (name: string, data: string, ttl = 30): Answer => ({ type: 'CNAME', name, ttl, data });

function learning(...peers: readonly string[]) {
  const learnt: Record<string, string[]> = {};
  const clock = fakeClock();
  const one = learner({
    clock,
    wants: (name) => peers.some((peer) => matchesName(peer, name)),
    learnt(name, records) {
      learnt[name] = [...(learnt[name] ?? []), ...records.map(({ address, ttl }) => `${address} ${ttl}`)];
    },
  });
  const tell = (...packets: readonly Uint8Array[]) => one.read(packets.map((payload) => ({ payload })));
  /** Reads each packet after the questions that it may answer. */
  const read = (...packets: readonly Uint8Array[]) => {
    for (const packet of packets) tell(...NAMES.map((name) => asIn(packet, name)), packet);
  };
  return { learnt, read, tell, counts: one.counts, clock };
}

/** Names that the tests answer. */
const NAMES = ['x.a.test', 'a.test', 'x.b.test'];

function asIn(packet: Uint8Array, name: string): Uint8Array {
  const isV6 = (packet[0] ?? 0) >> 4 === 6;
  return questionPacket(name, { ip: isV6 ? 'v6' : 'v4' });
}

/** The DNS message in a packet of IPv4 without options. */
function udpData(packet: Uint8Array): Buffer {
  return Buffer.from(packet.subarray(28));
}

/** An A record of the name in the question. */
function addressRecord(address: string): Buffer {
  return Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...address.split('.').map(Number)]);
}

describe('learner', () => {
  it('learns from every kind of IP packet', () => {
    for (const ip of ['v4', 'v4-options', 'v6', 'v6-extension'] as const) {
      const { learnt, read, counts } = learning('*.a.test');
      read(
        answerPacket('X.A.test', [A('x.a.TEST', '192.0.2.1'), AAAA('x.a.test', '2001:db8::1', 5)], { ip }),
      );
      assert.deepEqual(learnt, { 'x.a.test': ['192.0.2.1 30', '2001:db8::1 5'] }, ip);
      assert.equal(counts.learnt, 1);
    }
  });

  it('accepts an answer only to a question of the node, once, and for a short time', () => {
    const answer = answerPacket('x.a.test', [A('x.a.test', '192.0.2.1')]);
    const asked = (question: Uint8Array | null, later = 0) => {
      const { learnt, tell, counts, clock } = learning('*.a.test');
      if (question !== null) tell(question);
      clock.pass(later);
      tell(answer, answer);
      return [Object.keys(learnt).length, counts.learnt, counts.unasked];
    };
    assert.deepEqual(asked(questionPacket('X.a.test')), [1, 1, 1]);
    assert.deepEqual(asked(questionPacket('x.a.test'), 29_000), [1, 1, 1]);
    assert.deepEqual(asked(questionPacket('x.a.test'), 31_000), [0, 0, 2]);
    assert.deepEqual(asked(null), [0, 0, 2]);
    for (const other of [
      questionPacket('y.a.test'),
      questionPacket('x.a.test', { id: 8 }),
      questionPacket('x.a.test', { port: 40_001 }),
      questionPacket('x.a.test', { ip: 'v6' }),
    ]) {
      assert.deepEqual(asked(other), [0, 0, 2]);
    }
  });

  it('remembers a limited number of questions', () => {
    const { tell, counts } = learning('*.a.test');
    const ids = Array.from({ length: 20_000 }, (_, i) => i);
    tell(...ids.slice(0, 9_000).map((id) => questionPacket('x.a.test', { id })));
    assert.equal(counts.questions, 9_000);
    const answer = (id: number) => {
      const packet = Buffer.from(answerPacket('x.a.test', [A('x.a.test', '192.0.2.1')]));
      packet.writeUInt16BE(id, 28);
      return packet;
    };
    tell(answer(0), answer(8_999));
    assert.deepEqual([counts.unasked, counts.learnt], [1, 1]);
  });

  it('follows CNAMEs in any order, by the shortest TTL; the name of the question counts', () => {
    const chain = [
      CNAME('x.a.test', 'b.test', 20),
      CNAME('b.test', 'C.test', 300),
      A('c.test', '192.0.2.1', 60),
    ];
    for (const answers of [chain, [...chain].reverse()]) {
      const { learnt, read } = learning('*.a.test', 'c.test');
      read(answerPacket('x.a.test', answers));
      assert.deepEqual(learnt, { 'x.a.test': ['192.0.2.1 20'] });
    }
  });

  it('ignores loops, endless chains, and records of other names', () => {
    const { learnt, read, counts } = learning('*.a.test');
    const loop = [CNAME('x.a.test', 'y.a.test'), CNAME('y.a.test', 'x.a.test')];
    read(answerPacket('x.a.test', loop));
    read(answerPacket('x.a.test', [A('y.a.test', '203.0.113.1'), A('a.test', '203.0.113.1')]));
    const long = Array.from({ length: 40 }, (_, i) =>
      CNAME(i === 0 ? 'x.a.test' : `c${i}.test`, `c${i + 1}.test`),
    );
    read(answerPacket('x.a.test', [...long, A('c40.test', '203.0.113.1')]));
    assert.deepEqual(learnt, {});
    assert.equal(counts.ignored, 3);
    read(answerPacket('x.a.test', [...loop, A('y.a.test', '192.0.2.1'), A('evil.test', '203.0.113.1')]));
    assert.deepEqual(learnt, { 'x.a.test': ['192.0.2.1 30'] });
  });

  it('ignores unwanted names, failures, other types and empty answers', () => {
    const { learnt, read, counts } = learning('*.a.test');
    read(answerPacket('a.test', [A('a.test', '192.0.2.1')]));
    read(answerPacket('x.b.test', [A('x.b.test', '192.0.2.1')]));
    read(answerPacket('x.a.test', [], { flags: 0x0183 }));
    read(answerPacket('x.a.test', []));
    read(answerPacket('x.a.test', [A('x.a.test', '192.0.2.1')], { type: 'MX' }));
    assert.deepEqual(learnt, {});
    assert.equal(counts.ignored, 5);
  });

  it('learns from a truncated answer, and reads no other section', () => {
    const { learnt, read, counts } = learning('x.a.test');
    read(answerPacket('x.a.test', [A('x.a.test', '192.0.2.1')], { flags: 0x0380 }));
    const packet = Buffer.from(answerPacket('x.a.test', [A('x.a.test', '192.0.2.2')]));
    // Claims additional records that the packet does not have.
    packet.writeUInt16BE(3, 28 + 10);
    read(packet);
    assert.deepEqual(learnt, { 'x.a.test': ['192.0.2.1 30', '192.0.2.2 30'] });
    assert.equal(counts.cut, 1);
  });

  it('counts fragments and truncated packets', () => {
    const { learnt, read, counts } = learning('*.a.test');
    const whole = answerPacket('x.a.test', [A('x.a.test', '192.0.2.1')]);
    const fragment = Buffer.from(whole);
    fragment.writeUInt16BE(0x2000, 6);
    const rest = Buffer.from(whole);
    rest.writeUInt16BE(185, 6);
    read(fragment, rest, whole.subarray(0, whole.length - 1));
    assert.deepEqual(learnt, {});
    assert.equal(counts.incomplete, 3);
  });

  it('treats a label with a dot or other bytes as garbage', () => {
    const { learnt, read, counts } = learning('*.a.test');
    for (const byte of ['.', '\0', ' ', '*', '\xff']) {
      const packet = Buffer.from(answerPacket('xyz.a.test', [A('xyz.a.test', '192.0.2.1')]));
      packet[28 + 12 + 2] = byte.charCodeAt(0);
      read(packet);
    }
    assert.deepEqual(learnt, {});
    assert.equal(counts.garbage, 5);
  });

  it('reads no query, no other protocol, and no more records than a message has room for', () => {
    const { learnt, read, counts } = learning('*.a.test');
    const answer = () => Buffer.from(answerPacket('x.a.test', [A('x.a.test', '192.0.2.1')]));
    const changed = (at: number, value: number) => {
      const packet = answer();
      packet.writeUInt16BE(value, at);
      return packet;
    };
    read(changed(30, 0x0100), changed(30, 0x9000), changed(32, 2), changed(34, 65_535));
    const tcp = answer();
    tcp[9] = 6;
    const version = answer();
    version[0] = 0x75;
    read(tcp, version, new Uint8Array(), Uint8Array.of(0x45), Uint8Array.of(0x60));
    assert.deepEqual(learnt, {});
    assert.equal(counts.garbage, 9);
  });

  it('decodes a bounded number of bytes of names, whatever pointers stand for', () => {
    const long = `${'a.'.repeat(119)}x.a.test`;
    const record = Buffer.from([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60, 0, 2, 0xc0, 12]);
    const head = answerPacket(long, [A('b.test', '192.0.2.1')]);
    const message = Buffer.concat([udpData(head), ...Array.from({ length: 1_000 }, () => record)]);
    message.writeUInt16BE(1_001, 6);
    const question = { id: 1, name: long, answers: 1_001, isCut: false };
    // The records of others are not reached, and nothing is thrown.
    const last = Buffer.concat([message, addressRecord('192.0.2.7')]);
    last.writeUInt16BE(1_002, 6);
    assert.deepEqual(addressesFor({ ...question, answers: 1_002 }, last), []);
    const few = Buffer.concat([udpData(head), record, addressRecord('192.0.2.7')]);
    few.writeUInt16BE(3, 6);
    assert.deepEqual(
      addressesFor({ ...question, answers: 3 }, few).map(({ address }) => address),
      ['192.0.2.7'],
    );
    // Addresses cost their owner's name alone, also those that look like pointers.
    const many = Buffer.concat([
      udpData(answerPacket('x.a.test', [])),
      ...Array.from({ length: 1_000 }, (_, i) => addressRecord(`192.12.${i >> 8}.${i & 255}`)),
    ]);
    many.writeUInt16BE(1_000, 6);
    assert.equal(addressesFor({ ...question, name: 'x.a.test', answers: 1_000 }, many).length, 1_000);
  });

  it('learns at most a thousand records of one answer, at a limited rate', () => {
    const { learnt, read, counts, clock } = learning('*.a.test');
    const behaviour = { A: Array.from({ length: 2000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`) };
    const packet = answerPacket('x.a.test', answersTo({ name: 'x.a.test', type: 'A' }, behaviour));
    read(packet);
    assert.equal(learnt['x.a.test']?.length, 1024);
    for (let i = 0; i < 30; i++) read(packet);
    assert.equal(counts.learnt, 20);
    assert.equal(counts.skipped, 11);
    const other = answerPacket('x.b.test', [A('x.b.test', '192.0.2.1')]);
    for (let i = 0; i < 11_000; i++) read(other);
    assert(counts.skipped > 1000);
    clock.pass(1000);
    read(packet);
    assert.equal(counts.learnt, 21);
  });

  it('never throws on any packet, and learns no unwanted name', () => {
    const { learnt, read, counts } = learning('*.a.test');
    const good = answerPacket('x.a.test', [
      CNAME('x.a.test', 'b.test'),
      A('b.test', '192.0.2.1'),
      AAAA('b.test', '2001:db8::1'),
    ]);
    const flips = fc.array(fc.tuple(fc.nat(good.length - 1), fc.nat(255)), { minLength: 1, maxLength: 8 });
    const damaged = flips.map((all) => {
      const packet = Buffer.from(good);
      for (const [at, value] of all) packet[at] = value;
      return packet;
    });
    const cut = fc.nat(good.length).map((length) => good.subarray(0, length));
    const noise = fc.uint8Array({ maxLength: 300 });
    const wrapped = noise.map((bytes) => inIP(Buffer.concat([Buffer.from([0, 7, 0x81, 0x80]), bytes])));
    fc.assert(
      fc.property(fc.oneof(damaged, cut, noise, wrapped), (packet) => {
        read(packet);
        for (const name of Object.keys(learnt)) assert(matchesName('*.a.test', name), name);
      }),
      { numRuns: 5_000 },
    );
    const { packets, cut: _, ...ends } = counts;
    assert.equal(
      packets,
      Object.values(ends).reduce((a, b) => a + b, 0),
    );
  });
});
