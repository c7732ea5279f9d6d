/** One rule of another's nat table, as far as it says what becomes of packets for a port. */
export interface NatRule {
  readonly chain: string;
  readonly protocols: readonly string[];
  /** Destination ports; null: any. */
  readonly ports: readonly (readonly [first: number, last: number])[] | null;
  /** The destination, an address or CIDR; null: any. */
  readonly destination: string | null;
  /** Whether packets from outside match by protocol, port and destination alone. */
  readonly isPlain: boolean;
  /** Whether it is for packets of a bridge of containers, or of the machine itself. */
  readonly isInner: boolean;
  /** The chains that packets may go on with. */
  readonly chains: readonly string[];
  readonly verdict: 'dnat' | 'redirect' | 'ends' | null;
  /** As written: `172.17.0.2:80`, `:8080`; '': none. */
  readonly to: string;
}

/** The addon has numbers printed in the place of names. */
const PROTOCOLS = { tcp: '6', udp: '17', sctp: '132' } as const;
const INNER = /(?:\biifname|-i) "?(?:lo\b|docker|br-|cni|podman|virbr)/;

/** These words say nothing of a packet from outside to this machine, in nft's text. */
const PLAIN_NFT = [
  /\bcounter(?: packets \d+ bytes \d+)?/g,
  /\b(?:meta l4proto|ip protocol|ip6 nexthdr) (?:\{[^}]*\}|\S+)/g,
  /\b(?:tcp|udp|sctp|th) dport (?:\{[^}]*\}|\S+)/g,
  /\bmeta nfproto \S+/g,
  /\bfib daddr type (?:local|2)\b/g,
  /\bip6? daddr [\d:.a-f/]+/g,
  /\biifname != \S+/g,
  /\bdnat(?: ip6?)? to \S+/g,
  /\bredirect(?: to \S+)?/g,
  /\b(?:jump|goto) \S+/g,
  /\b(?:return|accept|persistent|random|fully-random)\b/g,
];

/** Rules of the text of `nft list table`. */
export function nftNatRules(text: string): NatRule[] {
  let chain = '';
  return text.split('\n').flatMap((raw): NatRule[] => {
    const line = raw.replaceAll(/comment "[^"]*"/g, '').trim();
    const begun = /^chain (\S+) \{/.exec(line)?.[1];
    if (begun !== undefined) {
      chain = begun;
      return [];
    }
    if (chain === '' || line === '' || line === '}' || line.startsWith('type ')) return [];
    const ports = /\bdport (?:\{ ([^}]*) \}|(\d[\d-]*))/.exec(line);
    return [
      {
        chain,
        protocols: protocolsIn(line),
        ports: ports === null ? null : toRanges(ports[1] ?? ports[2] ?? ''),
        destination: /\bip6? daddr ([\d:.a-f/]+)(?=\s)/.exec(line)?.[1] ?? null,
        isPlain: PLAIN_NFT.reduce((rest, plain) => rest.replaceAll(plain, ''), line).trim() === '',
        isInner: INNER.test(line),
        chains: [...line.matchAll(/\b(?:jump|goto) (\S+?)[,}]?(?=\s|$)/g)].map(([, name = '']) => name),
        ...verdictOf(/\b(dnat|redirect)\b/.exec(line)?.[1], /\b(?:return|accept)\b/.test(line)),
        to: /\b(?:dnat(?: ip6?)?|redirect) to (\S+)/.exec(line)?.[1] ?? '',
      },
    ];
  });
}

/** The same of an iptables-save. */
const PLAIN_IPTABLES = [
  /^-A \S+/,
  /-m comment --comment (?:"(?:[^"\\]|\\.)*"|\S+)/g,
  /-m (?:tcp|udp|sctp|multiport)\b/g,
  /-p \S+/g,
  /--dports? \S+/g,
  /(?<!! )-d \S+/g,
  /-m addrtype --dst-type LOCAL\b/g,
  /! -i \S+/g,
  /-[jg] \S+/g,
  /--to-(?:destination|ports) \S+/g,
  /--(?:random|persistent|random-fully)\b/g,
];

/** Rules of what an iptables-save prints. */
export function iptablesNatRules(text: string): NatRule[] {
  return text.split('\n').flatMap((raw): NatRule[] => {
    const chain = /^-A (\S+)/.exec(raw)?.[1];
    if (chain === undefined) return [];
    const line = raw.replaceAll(/--comment "(?:[^"\\]|\\.)*"/g, '--comment x');
    const target = /-[jg] (\S+)/.exec(line)?.[1] ?? '';
    const isEnd = ['RETURN', 'ACCEPT'].includes(target);
    const isNat = ['DNAT', 'REDIRECT'].includes(target);
    const ports = /(?<!! )--dports? (\S+)/.exec(line)?.[1];
    return [
      {
        chain,
        protocols: /(?<!! )-p (\S+)/.exec(line)?.slice(1) ?? [],
        ports: ports === undefined ? null : toRanges(ports.replaceAll(':', '-')),
        destination: /(?<!! )-d (\S+)/.exec(line)?.[1] ?? null,
        isPlain: PLAIN_IPTABLES.reduce((rest, plain) => rest.replace(plain, ''), line).trim() === '',
        isInner: !line.includes('! -i ') && INNER.test(line),
        chains: isEnd || isNat ? [] : [target],
        ...verdictOf(isNat ? target.toLowerCase() : undefined, isEnd),
        to: /--to-destination (\S+)/.exec(line)?.[1] ?? `:${/--to-ports (\S+)/.exec(line)?.[1] ?? ''}`,
      },
    ];
  });
}

function verdictOf(nat: string | undefined, isEnd: boolean): Pick<NatRule, 'verdict'> {
  if (nat === 'dnat' || nat === 'redirect') return { verdict: nat };
  return { verdict: isEnd ? 'ends' : null };
}

function protocolsIn(line: string): string[] {
  const [, list = ''] = /\b(?:meta l4proto|ip protocol|ip6 nexthdr) (\{[^}]*\}|\S+)/.exec(line) ?? [];
  const [, own = ''] = /\b(tcp|udp|sctp) dport/.exec(line) ?? [];
  const named = list.split(/[\s{},]+/);
  return Object.entries(PROTOCOLS).flatMap(([name, number]) =>
    own === name || named.includes(name) || named.includes(number) ? name : [],
  );
}

function toRanges(text: string): (readonly [number, number])[] {
  return text.split(',').map((part) => {
    const [first = Number.NaN, last = first] = part.trim().split('-').map(Number);
    return [first, last] as const;
  });
}
