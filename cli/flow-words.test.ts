import assert from 'node:assert/strict';
import { parseFlow } from '../apis/flow.ts';
import { filterOfWords, flowOfWords, kindFilterOfWords } from './flow-words.ts';
import { recordText } from './record-text.ts';

const RECORD = { time: '2026-11-21T15:55:00.743461Z', verdict: 'Drop', policy: 'a', tier: 't', rule: 'r' };

describe('a connection in words', () => {
  it('is the flow that JSON would have, to the Node and of TCP unless it says otherwise', () => {
    for (const [words, flow] of [
      [
        { from: '198.51.100.7', toPort: '22' },
        { direction: 'ingress', src: '198.51.100.7', protocol: 'tcp', dstPort: 22 },
      ],
      [
        { egress: true, to: '192.0.2.53', toPort: 'udp/53' },
        { direction: 'egress', dst: '192.0.2.53', protocol: 'udp', dstPort: 53 },
      ],
      [
        { toPort: '53/UDP', fromPort: '5353' },
        { direction: 'ingress', protocol: 'udp', srcPort: 5353, dstPort: 53 },
      ],
      [
        { nodeport: true, toPort: '30080' },
        { direction: 'ingress', traffic: 'NodePort', protocol: 'tcp', dstPort: 30_080 },
      ],
      [{ icmp: 'echo-request' }, { direction: 'ingress', protocol: 'icmp', icmpType: 8 }],
      [
        { from: 'fd00::1', icmp: 'echo-request' },
        { direction: 'ingress', src: 'fd00::1', protocol: 'icmpv6', icmpType: 128 },
      ],
      [{ icmp: 'packet-too-big' }, { direction: 'ingress', protocol: 'icmpv6', icmpType: 2 }],
      [{ protocol: '47' }, { direction: 'ingress', protocol: 47 }],
      [{ ingress: true }, { direction: 'ingress' }],
      [
        { icmp: 'echo-request', protocol: 'icmpv6' },
        { direction: 'ingress', protocol: 'icmpv6', icmpType: 128 },
      ],
      [
        { from: '::ffff:10.1.0.9', icmp: 'echo-request' },
        { direction: 'ingress', src: '10.1.0.9', protocol: 'icmp', icmpType: 8 },
      ],
    ] as const) {
      assert.deepEqual(flowOfWords(words), flow);
      assert.deepEqual(parseFlow(flow), flow);
    }
    assert.equal(flowOfWords({}), null);
    const ospf = flowOfWords({ to: '224.0.0.5', protocol: 'OSPF' });
    assert.deepEqual(ospf, { direction: 'ingress', dst: '224.0.0.5', protocol: 89 });
    const named = { direction: 'ingress', dst: '224.0.0.5', protocol: 'ospf' };
    assert.deepEqual(parseFlow(named), ospf);
  });

  it('names the option at fault, and what would be valid', () => {
    for (const [words, message] of [
      [{ from: 'x' }, /^--from: "x" is not an IP address such as /],
      [{ toPort: '99999' }, /^--to-port: "99999" is not a port such as 22, tcp\/22 or udp\/53$/],
      [{ toPort: 'tcp/22/tcp' }, /^--to-port: /],
      [{ toPort: 'tcp/22', protocol: 'udp' }, /^a connection has one protocol, not udp and tcp$/],
      [{ icmp: 'ping' }, /^--icmp: "ping" is not a number, or one of echo-request, /],
      [{ icmp: 'packet-too-big', from: '10.0.0.1' }, /^--icmp: /],
      [{ icmp: 'toString' }, /^--icmp: /],
      [{ icmp: '8', protocol: 'tcp' }, /^--icmp: "8" is not of protocol tcp$/],
      [{ protocol: '256' }, /^--protocol: "256" is not one of tcp, udp, /],
      [{ toPort: 'tpc/22' }, /^--protocol: "tpc" is not one of tcp, /],
      [{ from: '10.0.0.0/8' }, /^--from: .* is not an IP address such as /],
      [{ line: 'nonsense' }, /^--line: "nonsense" is not a line of /],
      [{ line: '{"a":' }, /^--line: /],
    ] as const)
      assert.throws(() => flowOfWords(words), { status: 2, message });
  });

  it('is read from a line of the log, as text and as JSON', () => {
    const ends = { src: '2001:db8::9', srcPort: 40_007, dst: 'fd00:10::11', dstPort: 5432 };
    for (const flow of [
      { direction: 'ingress', protocol: 'tcp', ...ends },
      { direction: 'egress', protocol: 'udp', src: '10.0.0.1', srcPort: 1, dst: '192.0.2.1', dstPort: 53 },
      { direction: 'ingress', protocol: 'sctp', traffic: 'NodePort', ...ends },
      { direction: 'ingress', protocol: 'icmp', icmpType: 8, icmpCode: 0, src: '10.0.0.1', dst: '10.0.0.2' },
      { direction: 'egress', protocol: 'igmp', igmpType: 22, src: '10.0.0.1', dst: '224.0.0.22' },
      {
        direction: 'ingress',
        protocol: 'icmpv6',
        icmpType: 128,
        icmpCode: 0,
        src: 'fe80::1',
        dst: 'ff02::1',
      },
    ]) {
      const record = { ...RECORD, ...flow, interface: 'eth0', label: 'NodePort' };
      assert.deepEqual(flowOfWords({ line: JSON.stringify(record) }), flow);
      assert.deepEqual(flowOfWords({ line: recordText(record) }), flow);
    }
  });

  it('is read from a line of conntrack, with NAT as the kernel did it', () => {
    const service =
      'udp      17 29 src=192.168.10.11 dst=10.96.0.10 sport=40107 dport=53 src=10.244.0.3 dst=192.168.10.11 sport=53 dport=40107 mark=0 use=1';
    assert.deepEqual(flowOfWords({ line: service, egress: true }), {
      direction: 'egress',
      protocol: 'udp',
      src: '192.168.10.11',
      srcPort: 40_107,
      dst: '10.244.0.3',
      dstPort: 53,
      originalDst: '10.96.0.10',
      originalDstPort: 53,
    });
    const nodePort =
      'ipv4     2 tcp      6 431999 ESTABLISHED src=192.0.2.1 dst=192.168.10.11 sport=40107 dport=30080 src=10.244.0.3 dst=192.168.10.11 sport=8080 dport=40107 [ASSURED] mark=0 use=1';
    assert.deepEqual(flowOfWords({ line: nodePort }), {
      direction: 'ingress',
      traffic: 'NodePort',
      protocol: 'tcp',
      src: '192.0.2.1',
      srcPort: 40_107,
      dst: '192.168.10.11',
      dstPort: 30_080,
    });
    const gre =
      '    [NEW] gre      47 29 src=192.0.2.1 dst=192.168.10.11 srckey=0x0 dstkey=0x0 src=192.168.10.11 dst=192.0.2.1';
    assert.deepEqual(flowOfWords({ line: gre }), {
      direction: 'ingress',
      protocol: 47,
      src: '192.0.2.1',
      dst: '192.168.10.11',
    });
    const ping =
      'icmp     1 29 src=10.0.0.1 dst=10.0.0.2 type=8 code=0 id=7 src=10.0.0.2 dst=10.0.0.1 type=0 code=0 id=7';
    assert.deepEqual(flowOfWords({ line: ping, to: '10.0.0.9' }), {
      direction: 'ingress',
      protocol: 'icmp',
      src: '10.0.0.1',
      dst: '10.0.0.9',
      icmpType: 8,
      icmpCode: 0,
    });
  });
});

describe('a filter in words', () => {
  it('has what the words say, as texts, and nothing without a word', () => {
    for (const [words, filter] of [
      [{}, {}],
      [
        { from: '10.0.0.0/8', toPort: '22' },
        { src: '10.0.0.0/8', protocol: 'tcp', port: '22' },
      ],
      [
        { from: '::ffff:10.0.0.0/104', to: '::ffff:a00:1', fromPort: 'udp/53', egress: true },
        { direction: 'egress', src: '10.0.0.0/8', dst: '10.0.0.1', protocol: 'udp', srcPort: '53' },
      ],
      [
        { ingress: true, nodeport: true, protocol: '6' },
        { direction: 'ingress', traffic: 'NodePort', protocol: 'tcp' },
      ],
      [{ protocol: '47' }, { protocol: '47' }],
      [
        { from: 'fd00::/8', icmp: 'echo-request' },
        { src: 'fd00::/8', protocol: 'icmpv6', icmpType: '128' },
      ],
    ] as const)
      assert.deepEqual(filterOfWords(words), filter);
    assert.throws(() => filterOfWords({ to: '10.0.0.0/33' }), {
      status: 2,
      message: /^--to: .* an address or a CIDR/,
    });
  });

  it('never lets everything through where a line was given', () => {
    for (const line of ['{}', '{"traffic":"Host"}', '{"verdict":"Drop"}'])
      assert.throws(() => filterOfWords({ line }), { status: 2, message: /^--line: / });
  });

  const LINE = { direction: 'ingress', protocol: 'tcp', src: '198.51.100.7', srcPort: 40_007 };

  it('has of a record of a NodePort what the client used', () => {
    const nat = { dst: '10.244.0.9', dstPort: 8080, originalDst: '192.0.2.1', originalDstPort: 30_080 };
    const record = { ...RECORD, ...LINE, ...nat, traffic: 'NodePort' };
    const client = { ...LINE, traffic: 'NodePort', dst: '192.0.2.1', dstPort: 30_080 };
    for (const line of [JSON.stringify(record), recordText(record)]) {
      assert.deepEqual(flowOfWords({ line }), client);
      const { src, dst, port } = filterOfWords({ line });
      assert.deepEqual([src, dst, port], ['198.51.100.7', '192.0.2.1', '30080']);
    }
  });

  it('leaves out of a line what kinds of flows do not tell apart', () => {
    const line = JSON.stringify({ ...RECORD, ...LINE, dst: '192.0.2.1', dstPort: 22 });
    const kind = { direction: 'ingress', protocol: 'tcp', src: '198.51.100.7', port: '22' };
    assert.deepEqual(kindFilterOfWords({ line }), kind);
    assert.deepEqual(kindFilterOfWords({ line, to: '192.0.2.0/24' }), { ...kind, dst: '192.0.2.0/24' });
    const conntrack =
      'udp 17 29 src=192.0.2.1 dst=192.0.2.53 sport=40107 dport=53 src=192.0.2.53 dst=192.0.2.1 sport=53 dport=40107';
    assert.deepEqual(kindFilterOfWords({ line: conntrack, egress: true }), {
      direction: 'egress',
      protocol: 'udp',
      dst: '192.0.2.53',
      port: '53',
    });
    assert.equal(filterOfWords({ line: conntrack }).direction, undefined);
    assert.equal(kindFilterOfWords({ line: conntrack }).direction, 'ingress');
    assert.deepEqual(kindFilterOfWords({ from: '10.0.0.1', to: '10.0.0.2' }), {
      src: '10.0.0.1',
      dst: '10.0.0.2',
    });
  });
});
