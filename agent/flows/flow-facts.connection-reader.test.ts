import assert from 'node:assert/strict';
import { type Ends, scannedConnection } from '../../test/fake/record.ts';
import { ConnectionReader, FlowFacts, type TrackedFlow } from './flow-facts.ts';
import { FlowInventory } from './flow-inventory.ts';

const NODE = '192.0.2.1';
const NODE_6 = '2001:db8::1';
const DNAT = 1 << 5;

const facts = new FlowFacts({
  addresses: [
    { address: NODE, netmask: '255.255.255.0' },
    { address: NODE_6, netmask: 'ffff:ffff:ffff:ffff::' },
  ],
  links: [],
  routes: null,
});

function readerOf(): (ends: Ends) => TrackedFlow[] {
  const reader = new ConnectionReader(facts);
  return (ends) => {
    const found: TrackedFlow[] = [];
    reader.read(scannedConnection(ends), (known) => found.push(known));
    return found;
  };
}

describe('the flow of a connection', () => {
  it('has the destination before NAT, but for NodePorts, whose destination is that', () => {
    const read = readerOf();
    const places = (ends: Ends) =>
      read(ends).map(({ flow }) => [
        flow.traffic,
        flow.local,
        flow.port,
        flow.originalDst,
        flow.originalPort,
      ]);
    const service = {
      src: NODE,
      dst: '10.96.0.1',
      port: 443,
      to: '198.51.100.7',
      toPort: 6443,
      status: DNAT,
    };
    assert.deepEqual(places(service), [['Host', NODE, 6443, '10.96.0.1', 443]]);
    assert.deepEqual(places({ src: NODE, dst: '198.51.100.8', port: 6443 }), [
      ['Host', NODE, 6443, null, null],
    ]);
    const own = { src: '198.51.100.7', dst: '203.0.113.1', port: 443, to: NODE, toPort: 8443, status: DNAT };
    assert.deepEqual(places(own), [
      ['NodePort', '203.0.113.1', 443, null, null],
      ['Host', NODE, 8443, '203.0.113.1', 443],
    ]);
  });

  it('has port 0, type 0 and code 0 where they are that, and none where there is none', () => {
    const read = readerOf();
    const numbers = (ends: Partial<Ends>) =>
      read({ src: '198.51.100.7', dst: NODE, ...ends }).map(({ flow: { port, type, code } }) => [
        port,
        type,
        code,
      ]);
    assert.deepEqual(numbers({ port: 0 }), [[0, null, null]]);
    assert.deepEqual(numbers({ protocol: 1, icmpType: 0 }), [[null, 0, 0]]);
    assert.deepEqual(numbers({ protocol: 50 }), [[null, null, null]]);
  });

  it('is the same object for all that rules do not tell apart, and another for each other peer', () => {
    const read = readerOf();
    const [first] = read({ src: '2001:db8:1::7', dst: NODE_6, port: 22 });
    assert.ok(first !== undefined);
    assert.equal(read({ src: '2001:db8:1::7', dst: NODE_6, port: 22 })[0], first);
    const others: readonly Ends[] = [
      { src: '2001:db8:1::8', dst: NODE_6, port: 22 },
      { src: '2001:db8:1::7', dst: NODE_6, port: 23 },
      { src: '2001:db8:1::7', dst: NODE_6, port: 22, protocol: 17 },
      { src: NODE_6, dst: '2001:db8:1::7', port: 22 },
      { src: '198.51.100.7', dst: NODE, port: 22 },
      { src: '198.51.100.8', dst: NODE, port: 22 },
    ];
    const all = others.flatMap(read);
    assert.equal(new Set([first, ...all]).size, 1 + others.length);
  });

  it('is looked up again if its kind was left out', () => {
    const read = readerOf();
    const ends = { src: '198.51.100.7', dst: NODE, port: 22 };
    const [known] = read(ends);
    assert.ok(known !== undefined);
    known.kind = new FlowInventory(0).kindOf(known.flow, 0);
    assert.notEqual(read(ends)[0]?.kind, null);
    known.kind.isGone = true;
    assert.equal(read(ends)[0]?.kind, null);
  });
});
