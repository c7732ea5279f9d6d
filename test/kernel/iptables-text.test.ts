/**
 * What stage 5 says of iptables is what the kernel says of itself: random scenarios, and every kind
 * of match at its limits, loaded by iptables-restore of either variant and printed again by its
 * iptables-save, line for line. Stage 6 tells by that what has changed.
 *
 * NODEWALL_SEED=N runs that one seed; NODEWALL_SEEDS=N runs so many, default 8.
 */

import assert from 'node:assert/strict';
import { iptablesRenderer } from '../../agent/render/iptables/render.ts';
import { ruleTexts, targetText } from '../../agent/render/iptables/rule-text.ts';
import {
  CHAIN_PREFIX,
  type IpSet,
  type IptablesRuleset,
  type IptablesTable,
  restoreText,
} from '../../agent/render/iptables/tables.ts';
import type { Match } from '../../agent/render/ruleset.ts';
import { FAMILIES, type Family, formatAddress, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { formatFamily, unpackAddress } from '../../lib/net/member-set.ts';
import { ALL_FEATURES, sample } from '../generate/scenario.ts';
import { ofNodePort } from '../generate/service.ts';
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { toConfig, toState } from '../properties/pipeline.ts';
import { kernelSuite } from './kernel-suite.ts';

const FIRST_SEED = 3000;
const VARIANTS = ['nft', 'legacy'] as const;

for (const variant of VARIANTS) {
  kernelSuite(`iptables-${variant} prints the rules as they are rendered`, () => {
    let namespace: Namespace | undefined;
    afterEach(async () => {
      await namespace?.close();
      namespace = undefined;
    });

    for (const seed of seeds()) {
      for (const dispatch of ['indexed', 'linear'] as const) {
        it(`of random policies, seed ${seed}, ${dispatch}`, async () => {
          const drawn = sample(seed, { size: 12, features: ALL_FEATURES, flows: 0 });
          const objects = seed % 2 === 0 ? drawn.objects.map(ofNodePort) : drawn.objects;
          const config = {
            ...toConfig(drawn.config),
            dispatch,
            masquerade: { enabled: true, except: ['10.0.0.0/8', '192.0.2.0/24', '2001:db8::/32'] },
          };
          const ruleset = iptablesRenderer(config)(toState(objects, drawn.node, drawn.names));
          namespace = await createNamespace('iptables-text');
          await assertSame(namespace, ruleset);
        });
      }
    }

    it('of every kind of match and statement', async () => {
      namespace = await createNamespace('iptables-text');
      await assertSame(namespace, everything());
    });
  });

  async function assertSame(namespace: Namespace, { sets, families }: IptablesRuleset): Promise<void> {
    await namespace.run(['ipset', 'restore'], { stdin: [...sets.values()].map(setText).join('') });
    for (const family of FAMILIES) {
      const command = `${family === 4 ? 'iptables' : 'ip6tables'}-${variant}`;
      await namespace.run([`${command}-restore`, '--noflush', '--wait'], {
        stdin: restoreText(families[family]),
      });
      const { stdout } = await namespace.run([`${command}-save`]);
      assert.deepEqual(saved(stdout), families[family].flatMap(lines).sort(), `IPv${family}`);
    }
  }
}

/** Of our chains, by chain, which need not come in the order they were given. */
function saved(text: string): string[] {
  const found: string[] = [];
  let at = 0;
  let chain = '';
  for (const line of text.split('\n')) {
    const [word, name = ''] = line.split(' ');
    if (word !== '-A' || !`${name} ${line}`.includes(CHAIN_PREFIX)) continue;
    at = name === chain ? at + 1 : 0;
    chain = name;
    found.push(`${name} ${`${at}`.padStart(5, '0')} ${line.slice(4 + name.length)}`);
  }
  return found.sort();
}

function lines({ jumps, chains }: IptablesTable): string[] {
  return [
    ...jumps.map(({ from, to }) => `${from} 00000 -j ${to}`),
    ...[...chains.values()].flatMap(({ name, rules }) =>
      rules.map(({ text }, i) => `${name} ${`${i}`.padStart(5, '0')} ${text}`),
    ),
  ];
}

function setText({ name, type, family, members }: IpSet): string {
  const entries =
    type === 'hash:ip,port' ? services(family, members.singles) : formatFamily({ family, ...members });
  const create = `create ${name} ${type} family ${family === 4 ? 'inet' : 'inet6'}\n`;
  return create + entries.map((entry) => `add ${name} ${entry}\n`).join('');
}

function services(family: Family, packed: Uint8Array): string[] {
  const width = family === 4 ? 12 : 24;
  const bytes = Buffer.from(packed);
  return Array.from({ length: packed.length / width }, (_, i) => {
    const end = (i + 1) * width;
    const address = formatAddress(unpackAddress(family, packed, i * width));
    return `${address},${bytes.readUInt8(end - 8)}:${bytes.readUInt16BE(end - 4)}`;
  });
}

const TCP = (field: 'sport' | 'dport', ...ranges: (readonly [number, number])[]): Match => ({
  match: 'port',
  protocol: 'tcp',
  field,
  ranges,
});
const LIMITS = Array.from({ length: 40 }, (_, i): Match => {
  return { match: 'limit', perSecond: Math.max(1, Math.round(1.3 ** i)), burst: 1 + 300 * i };
});
const MANY = Array.from({ length: 23 }, (_, i) => [10 * i + 1, 10 * i + 1 + (i % 2)] as const);
const ADDRESSES = [
  '192.0.2.1/32 0.0.0.0/1 10.0.0.0/8 198.51.100.128/25',
  '::/1 ::1/128 ::2/127 ::1:0/128 ::1:2:3/128 ::ffff:1.2.3.4/128 ::ffff:0:0/96 2001:db8::/32',
  '1:0:2:3:4:5:6:7/128 1:0:0:2:0:0:0:3/128 fe80::/10 2001:db8:0:0:1::/80',
].flatMap((texts) => texts.split(' '));

const MATCHES: readonly (readonly Match[])[] = [
  [],
  [{ match: 'ctEstablished' }],
  [{ match: 'ctDnat' }, { match: 'ctConfirmed' }],
  [{ match: 'dnsAnswer' }],
  [{ match: 'toVrf', device: 'red-7.x_0' }],
  [{ match: 'ctUntracked' }, { match: 'tcpNotFirst' }, TCP('sport', [53, 53])],
  [{ match: 'loopback', field: 'iif' }, TCP('dport', [1, 65535])],
  [TCP('dport', [0, 0])],
  [TCP('dport', [0, 65534]), TCP('sport', [65535, 65535])],
  [TCP('sport', [1, 2]), TCP('dport', ...MANY)],
  [TCP('sport', ...MANY)],
  [
    { match: 'nfproto', family: 4 },
    { match: 'l4proto', protocols: ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp'] },
  ],
  [
    { match: 'nfproto', family: 6 },
    { match: 'l4proto', protocols: ['tcp', 'udp', 'sctp', 'icmp', 'icmpv6', 'igmp'] },
  ],
  [
    {
      match: 'interfaceGroup',
      field: 'iifgroup',
      groups: [0, 8, 2147483647, 2147483648, 4294967295],
      negated: false,
    },
  ],
  [{ match: 'interfaceGroup', field: 'iifgroup', groups: [8, 9], negated: true }],
  [
    {
      match: 'originalPort',
      protocol: 'sctp',
      ranges: [
        [0, 80],
        [443, 443],
        [30000, 65535],
      ],
    },
  ],
  [
    {
      match: 'portTuple',
      withSourcePort: true,
      tuples: [
        { protocol: 'udp', sourcePorts: [0, 65535], ports: [53, 53] },
        { protocol: 'sctp', sourcePorts: [1, 5], ports: [0, 65535] },
        { protocol: 'sctp', sourcePorts: [7, 7], ports: [0, 9] },
        { protocol: 'sctp', sourcePorts: [7, 7], ports: [11, 12] },
      ],
    },
  ],
  [
    {
      match: 'icmp',
      protocol: 'icmp',
      types: [
        { type: 8, code: 0 },
        { type: 200, code: null },
        { type: 255, code: null },
        { type: 255, code: 3 },
        { type: 254, code: 255 },
      ],
    },
  ],
  [
    {
      match: 'icmp',
      protocol: 'icmpv6',
      types: [
        { type: 0, code: 0 },
        { type: 133, code: null },
        { type: 255, code: 255 },
        { type: 255, code: null },
      ],
    },
  ],
  ...([4, 6] as const).map((family) => [
    { match: 'nfproto' as const, family },
    { match: 'l4proto' as const, protocols: Array.from({ length: 256 }, (_, i) => i) },
  ]),
  [{ match: 'igmp', types: [0x11] }],
  [{ match: 'igmp', types: Array.from({ length: 12 }, (_, i) => 23 * i) }],
  ...LIMITS.map((limit) => [limit]),
  ...ADDRESSES.flatMap((text) => {
    const { cidr } = parseCidr(text) ?? {};
    if (cidr === undefined || parseAddress(text.split('/')[0] ?? '') === null) throw new Error(text);
    const { family } = cidr;
    return [
      [{ match: 'address', family, field: 'saddr', in: { cidr } } as const],
      [
        { match: 'address', family, field: 'daddr', in: { cidr } } as const,
        { match: 'l4proto', protocols: ['udp'] } as const,
      ],
      [{ match: 'notIn', family, field: 'daddr', cidrs: [cidr] } as const],
      [
        { match: 'notIn', family, field: 'saddr', cidrs: [cidr] } as const,
        { match: 'local', field: 'saddr' } as const,
      ],
    ];
  }),
];

const STATEMENTS: readonly Parameters<typeof targetText>[0][] = [
  { kind: 'accept' },
  { kind: 'drop' },
  { kind: 'return' },
  { kind: 'reject', with: 'icmpx admin-prohibited' },
  ...['nodewall 0123456789ab Allow audit', 'one'].flatMap((prefix) =>
    [1, 64].map((queueThreshold) => ({
      kind: 'log' as const,
      prefix,
      group: 7411,
      copyRange: queueThreshold === 1 ? 65535 : 128,
      queueThreshold,
    })),
  ),
];

const COMMENTS = [
  null,
  'plain_word-1',
  'policy/rule',
  'a "quoted" \\ \'one\'',
  'Regel für überall …',
  'x'.repeat(120),
];

/**
 * All of the tables above, each match with a comment and each statement once; chains of ours in
 * INPUT.
 */
function everything(): IptablesRuleset {
  const tables = (family: Family): IptablesTable[] => {
    const context = { family, setNames: new Map<string, string>() };
    const matches = MATCHES.flatMap((match, i) =>
      ruleTexts(match, { target: '', comment: COMMENTS[i % COMMENTS.length] ?? null }, context),
    );
    const statements = STATEMENTS.flatMap((statement) =>
      ruleTexts([], { target: targetText(statement, family), comment: null }, context),
    );
    const reset = targetText({ kind: 'reject', with: 'tcp reset' }, family);
    const texts = [...matches, ...statements, `-p tcp ${reset}`].filter((text) => text !== '');
    const name = `${CHAIN_PREFIX}${'x'.repeat(28 - CHAIN_PREFIX.length)}`;
    const rules = texts.map((text) => ({ text, counts: null, source: null }));
    const chains = new Map([[name, { name, rules }]]);
    return [{ name: 'filter', jumps: [{ from: 'INPUT', to: name }], chains }];
  };
  return { sets: new Map(), families: { 4: tables(4), 6: tables(6) } };
}

function seeds(): number[] {
  const { NODEWALL_SEED: one, NODEWALL_SEEDS: count = '8' } = process.env;
  if (one !== undefined) return [Number(one)];
  return Array.from({ length: Number(count) }, (_, i) => FIRST_SEED + i);
}
