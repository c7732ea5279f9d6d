import type { BaseChain, Chain, Match, NamedSet, NftRule, Ruleset } from '../../agent/render/ruleset.ts';
import { type ChainVerdict, packAddressMac, toVerdictMap } from '../../agent/render/verdict-map.ts';
import { type Address, parseAddress, parseCidr } from '../../lib/net/address.ts';
import { packMachine32 } from '../../lib/net/bytes.ts';
import { packAddress, toMemberSet } from '../../lib/net/member-set.ts';
import { indexChain, rule, ruleset } from './ruleset.ts';

/**
 * Marks of the table below: bits 24 to 30; the highest of them says that a gateway has taken it.
 */
export const MASK = 0x7f000000;
export const TAKEN = 0x40000000;
const REST = 0x80ffffff;
/** Interface groups. */
export const PODS = 8;
export const TUNNEL = 10;

function address(text: string): Address {
  const found = parseAddress(text);
  if (found === null) throw new Error(`${text} is no address`);
  return found;
}

const goto = (chain: string): ChainVerdict => ({ kind: 'goto', chain });
const group = (field: 'iifgroup' | 'oifgroup', number: number, negated = false): Match => ({
  match: 'interfaceGroup',
  field,
  groups: [number],
  negated,
});
const mark = (of: 'meta' | 'ct', mask: number, value: number, negated = false): Match => ({
  match: 'mark',
  of,
  mask,
  value,
  negated,
});
const ORIGINAL: Match = { match: 'ctDirection', direction: 'original' };
const NEW: Match = { match: 'ctNew' };

function base(name: string, hook: BaseChain['hook'], priority: number, ...rules: readonly NftRule[]): Chain {
  const type = name.endsWith('-bind') ? 'nat' : 'filter';
  return { ...indexChain(name, ...rules), base: { type, hook, priority, policy: 'accept' } };
}

function counted(one: NftRule, comment: string | null = null): NftRule {
  return { ...one, counter: true, comment };
}

/** Writes a number into both marks, and accepts. */
function marking(name: string, value: number): Chain {
  return indexChain(
    name,
    rule({ kind: 'setMark', to: 'meta', from: 'meta', mask: REST, value }),
    rule({ kind: 'setMark', to: 'ct', from: 'ct', mask: REST, value }),
    rule({ kind: 'accept' }),
  );
}

function set(name: string, interval: boolean, ...members: readonly string[]): NamedSet {
  const blocks = members.flatMap((text) => {
    const cidr = text.includes('/') ? parseCidr(text)?.cidr : undefined;
    return cidr === undefined ? [] : [{ cidr, except: [] }];
  });
  const { v4 } = toMemberSet(
    blocks,
    members.filter((text) => !text.includes('/')),
  );
  return { name, family: 4, key: 'address', interval, members: v4, comment: null };
}

/** What differs from table to table. */
interface EgressParts {
  /** The chains that sources lead to. */
  readonly sources: Readonly<Record<string, string>>;
  /** The slots of the buckets, in turn. */
  readonly spread: readonly number[];
  /** Pods of the node with the MAC 0e:00:00:00:00:02. */
  readonly served: readonly string[];
  /** The addresses of the first take. */
  readonly translated: readonly string[];
  /** A destination that no gateway has an address for. */
  readonly unsupported: string;
}

const PARTS: EgressParts = {
  sources: { '10.1.0.7': 'egress-class', '10.1.0.9': 'egress-take-2' },
  spread: [9, 7, 7],
  served: ['10.2.0.5'],
  translated: ['192.0.2.10', '192.0.2.11'],
  unsupported: '203.0.114.0',
};

/** Changes of which each makes another table. */
export const EGRESS_TABLES: readonly Partial<EgressParts>[] = [
  {},
  { sources: { '10.1.0.6': 'egress-class', '10.1.0.7': 'egress-take-2' } },
  { spread: [7, 9] },
  { served: ['10.2.0.4', '10.2.0.6'] },
  { translated: ['192.0.2.11', '192.0.2.12', '192.0.2.13'] },
  { unsupported: '203.0.116.9' },
  { sources: {}, spread: [7], served: [], translated: ['192.0.2.1'], unsupported: '203.0.116.9' },
];

/**
 * A table by hand with every kind of match and statement that egress gateways need: a source node
 * and a gateway in one. 10.1.0.7 goes through slot 7, or where its destination is in 203.0.113.0/24
 * through slot 7 or 9 by a hash; 10.1.0.8 is known and not steered; 10.1.0.9 is this gateway's own.
 * 10.2.0.5 comes by the tunnel from 0e:00:00:00:00:02.
 */
export function egressTable(changes: Partial<EgressParts> = {}): Ruleset {
  const { sources, spread, served, translated, unsupported } = { ...PARTS, ...changes };
  const hash = { name: 'egress-sources', key: 'address', family: 4, interval: false, fixed: false } as const;
  const destinations = { ...hash, name: `egress-class-${unsupported}`, interval: true, fixed: true } as const;
  const marks = { ...hash, name: 'egress-restore', key: 'mark', family: null } as const;
  const pairs = { ...hash, name: 'egress-arrivals', key: 'addressMac' } as const;
  const from = (text: string, chain: string) => ({
    first: packAddress(address(text)),
    verdict: goto(chain),
  });
  return ruleset(
    [
      base(
        'egress-untrack',
        'prerouting',
        -300,
        rule({ kind: 'notrack' }, { match: 'port', protocol: 'udp', field: 'dport', ranges: [[7790, 7790]] }),
      ),
      base(
        'egress-steer',
        'prerouting',
        -80,
        rule({ kind: 'markMap', of: 'ct', mask: MASK, map: 'egress-restore' }, ORIGINAL),
        rule(goto('egress-arrive'), group('iifgroup', TUNNEL)),
        rule(
          { kind: 'setMark', to: 'meta', from: 'ct', mask: 0xffffffff, value: 0 },
          ...[{ match: 'ctDirection', direction: 'reply' } as const, mark('ct', TAKEN, 0, true)],
        ),
        rule({ kind: 'jump', chain: 'egress-choose' }, group('iifgroup', PODS), NEW),
      ),
      indexChain(
        'egress-choose',
        counted(rule({ kind: 'drop' }, { match: 'noRouteBack' }), 'not an address of this interface'),
        rule(
          { kind: 'return' },
          { match: 'address', family: 4, field: 'daddr', in: { set: 'egress-inside' } },
        ),
        rule({ kind: 'addressMap', family: 4, field: 'saddr', map: 'egress-sources' }),
        counted(
          rule({ kind: 'drop' }, { match: 'notInSet', family: 4, field: 'saddr', set: 'egress-known' }),
          'unknown pod',
        ),
      ),
      indexChain(
        'egress-class',
        rule({ kind: 'addressMap', family: 4, field: 'daddr', map: `egress-class-${unsupported}` }),
      ),
      indexChain(
        'egress-spread',
        counted(
          rule({
            kind: 'hashMap',
            family: 4,
            fields: ['saddr', 'daddr'],
            verdicts: Array.from({ length: 128 }, (_, i) => goto(`egress-slot-${spread[i % spread.length]}`)),
          }),
          'spread',
        ),
      ),
      indexChain(
        'egress-no-family',
        counted(rule({ kind: 'reject', with: 'tcp reset' })),
        rule({ kind: 'drop' }),
      ),
      marking('egress-slot-7', 0x07000000),
      marking('egress-slot-9', 0x09000000),
      marking('egress-take-1', TAKEN | 0x01000000),
      marking('egress-take-2', TAKEN | 0x02000000),
      indexChain(
        'egress-arrive',
        rule({ kind: 'addressMacMap', family: 4, map: 'egress-arrivals' }, NEW),
        counted(rule({ kind: 'drop' }, NEW), 'not a pod that this gateway serves'),
        rule({ kind: 'setMark', to: 'meta', from: 'ct', mask: 0xffffffff, value: 0 }, ORIGINAL),
      ),
      base(
        'egress-guard',
        'forward',
        -150,
        rule({ kind: 'maxSegment', size: 'rt mtu' }, group('oifgroup', TUNNEL), { match: 'tcpSyn' }),
        rule({ kind: 'maxSegment', size: 1360 }, group('iifgroup', TUNNEL), { match: 'tcpSyn' }),
        counted(
          rule(
            { kind: 'drop' },
            ...[mark('meta', MASK, 0, true), mark('meta', TAKEN, 0), group('oifgroup', TUNNEL, true)],
          ),
          'steered, and no way',
        ),
        rule({ kind: 'setMark', to: 'meta', from: 'meta', mask: REST, value: 0 }, group('oifgroup', TUNNEL)),
      ),
      base(
        'egress-bind',
        'postrouting',
        90,
        rule({ kind: 'snat', family: 4, to: 'saddr' }, group('oifgroup', TUNNEL)),
        rule({ kind: 'markMap', of: 'meta', mask: MASK, map: 'egress-translate' }),
      ),
      indexChain(
        'egress-translate-1',
        rule({
          kind: 'hashMap',
          family: 4,
          fields: ['saddr'],
          verdicts: translated.map((_, i) => goto(`egress-translate-1-${i}`)),
        }),
      ),
      ...translated.map((text, i) =>
        indexChain(`egress-translate-1-${i}`, rule({ kind: 'snat', family: 4, to: address(text).value })),
      ),
      indexChain('egress-translate-2', rule({ kind: 'masquerade', random: false })),
      base(
        'egress-seal',
        'postrouting',
        110,
        counted(
          rule(
            { kind: 'drop' },
            ...[
              group('oifgroup', TUNNEL, true),
              mark('meta', TAKEN, 0, true),
              { match: 'ctNoSnat' } as const,
            ],
          ),
          'not translated',
        ),
      ),
    ],
    {
      sets: [set('egress-inside', true, '10.0.0.0/8', '192.168.7.7'), set('egress-known', false, '10.1.0.8')],
      maps: [
        toVerdictMap(
          hash,
          Object.entries(sources).map(([text, chain]) => from(text, chain)),
        ),
        toVerdictMap(destinations, [
          { ...from('0.0.0.0', 'egress-slot-7'), last: packAddress(address('203.0.112.255')) },
          { ...from('203.0.113.0', 'egress-spread'), last: packAddress(address('203.0.113.255')) },
          { ...from(unsupported, 'egress-no-family'), last: packAddress(address(unsupported)) },
        ]),
        toVerdictMap(marks, [
          { first: packMachine32(0x07000000), verdict: goto('egress-slot-7') },
          { first: packMachine32(0x09000000), verdict: goto('egress-slot-9') },
          { first: packMachine32(TAKEN | 0x02000000), verdict: goto('egress-take-2') },
        ]),
        toVerdictMap({ ...marks, name: 'egress-translate' }, [
          { first: packMachine32(TAKEN | 0x01000000), verdict: goto('egress-translate-1') },
          { first: packMachine32(TAKEN | 0x02000000), verdict: goto('egress-translate-2') },
        ]),
        toVerdictMap(
          pairs,
          served.map((text) => ({
            first: packAddressMac(address(text), '0e:00:00:00:00:02'),
            verdict: goto('egress-take-1'),
          })),
        ),
      ],
    },
  );
}

/** The ruleset while these floating addresses are alive: elements of sets with a timeout. */
export function withAlive(ruleset: Ruleset, addresses: readonly string[]): Ruleset {
  const { v4, v6 } = toMemberSet([], addresses);
  const sets = [...ruleset.sets].map(
    ([name, set]) => [name, set.timed ? { ...set, members: set.family === 4 ? v4 : v6 } : set] as const,
  );
  return { ...ruleset, sets: new Map(sets) };
}
