import { type Config, DEFAULT_EGRESS_GROUP } from '../../../apis/config.ts';
import { FAMILIES, type Family } from '../../../lib/net/address.ts';
import {
  type BaseChain,
  type Chain,
  type Match,
  type MatchOf,
  type NftRule,
  plainChain,
  plainRule,
  type Statement,
} from '../../render/ruleset.ts';
import { dropRule, INSIDE, NOT_SERVED } from './counted.ts';
import { ENDED, GATEWAY, HAS_WAY, MARK_MASK, NUMBER_MASK, OTHER_BITS, SENT } from './marks.ts';
import {
  byWireGuard,
  CLAIMS,
  claims,
  EGRESS_NAMES,
  echoes,
  inSet,
  nodes,
  OWN_PORTS,
  ofWireGuard,
  TUNNEL_PORT,
  WIREGUARD_PORT,
} from './tunnel-rules.ts';

export const MARK_CT = (mask: number, value: number, negated = false): Match => ({
  match: 'mark',
  of: 'ct',
  mask,
  value,
  negated,
});
const MARK_META = (mask: number, value: number, negated = false): Match => ({
  match: 'mark',
  of: 'meta',
  mask,
  value,
  negated,
});
const ORIGINAL: Match = { match: 'ctDirection', direction: 'original' };
const REPLY: Match = { match: 'ctDirection', direction: 'reply' };
/** The connection, or the packet, is on its way through a slot of this node. */
const HAS_SLOT = (of: typeof MARK_CT): Match[] => [of(NUMBER_MASK, 0, true), of(GATEWAY, 0)];
const IS_TAKEN = (of: typeof MARK_CT): Match => of(GATEWAY, GATEWAY);

const goto = (chain: string): Statement => ({ kind: 'goto', chain });
const RESTORE: Statement = { kind: 'markMap', of: 'ct', mask: MARK_MASK, map: EGRESS_NAMES.restore };
/** Whether it has a way, whatever its mark says by now. */
export const LABEL = (negated: boolean): Match => ({ match: 'ctLabel', bits: HAS_WAY, negated });
const ACCEPT: Statement = { kind: 'accept' };
const RETURN: Statement = { kind: 'return' };

/** The base chain that decides about each packet before routing. */
export const STEER = 'egress-steer';
/** Before the masquerade of CNI and kube-proxy (100), which then find the connection translated. */
export const BIND_PRIORITY = 90;

/**
 * The base chains that come and go with the state. Each that was there stays, without rules, while
 * the others are there (agent/apply/plan/current-state.ts).
 */
export const TRANSIENT_BASES = {
  'egress-untrack': filter('prerouting', -300),
  'egress-decrypted': filter('prerouting', -310),
  'egress-encrypt': filter('postrouting', 330),
  'egress-seal': filter('postrouting', 110),
  'egress-silence': filter('output', 110),
} as const;

function filter(hook: BaseChain['hook'], priority: number): BaseChain {
  return { type: 'filter', hook, priority, policy: 'accept' };
}

interface FrameParts {
  readonly config: Config;
  /** Whether connections from local pods are judged. */
  readonly judges: boolean;
  /** Whether the tunnel is in use. */
  readonly hasTunnel: boolean;
  /** Whether this node is a gateway for connections, new or old. */
  readonly takes: boolean;
  /** Whether this node can have floating addresses. */
  readonly hasFloating: boolean;
}

/**
 * The base chains. Those that keep connections from leaving by another way than they have got are
 * there even if nothing is steered any more: connections may be left that were. Every packet of the
 * node passes them, so each asks first what ends it for most packets.
 */
export function frameChains({ config, judges, hasTunnel, takes, hasFloating }: FrameParts): Chain[] {
  const encrypts = hasTunnel && config.egress.encryption === 'WireGuard';
  const pods = config.interfaceGroups.pods;
  const tunnelGroup = config.interfaceGroups.egress ?? DEFAULT_EGRESS_GROUP;
  const tunnel = (field: 'iifgroup' | 'oifgroup', negated = false): Match => ({
    match: 'interfaceGroup',
    field,
    groups: [tunnelGroup],
    negated,
  });
  const fromPods: Match = { match: 'interfaceGroup', field: 'iifgroup', groups: [pods], negated: false };
  const notToPods: MatchOf<'interfaceGroup'> = {
    match: 'interfaceGroup',
    field: 'oifgroup',
    groups: [pods],
    negated: true,
  };
  return [
    ...(hasTunnel ? tunnelChains(tunnel('iifgroup'), hasFloating ? toFloating() : [], encrypts) : []),
    ...(encrypts ? wireguardChains() : []),
    ...sentChains(tunnel('oifgroup'), hasTunnel, encrypts),
    // After the destination NAT of kube-proxy and of NodePorts (-100), before routing.
    base(STEER, { hook: 'prerouting', priority: -80 }, [
      plainRule(goto(EGRESS_NAMES.marked), MARK_CT(MARK_MASK, 0, true)),
      ...(judges
        ? [
            // Begun before the policies were, or left alone by them.
            plainRule(ACCEPT, fromPods, { match: 'ctEstablished' }, LABEL(true)),
            // Somebody else has taken the mark away.
            plainRule(goto(EGRESS_NAMES.gone), fromPods, LABEL(false)),
            plainRule({ kind: 'jump', chain: EGRESS_NAMES.choose }, fromPods),
          ]
        : []),
      plainRule(goto(EGRESS_NAMES.arrive), tunnel('iifgroup')),
    ]),
    ...reverseChains(tunnel('iifgroup')),
    markedChain(tunnel('iifgroup')),
    goneChain(fromPods),
    ...guardChains(tunnel('oifgroup'), tunnel('iifgroup'), notToPods),
    base('egress-bind', { type: 'nat', hook: 'postrouting', priority: BIND_PRIORITY }, [
      ...FAMILIES.map((family) => plainRule({ kind: 'snat', family, to: 'saddr' }, tunnel('oifgroup'))),
      plainRule({ kind: 'markMap', of: 'meta', mask: MARK_MASK, map: EGRESS_NAMES.translate }),
    ]),
    ...(takes || hasFloating ? [sealChain(tunnel('oifgroup', true), hasFloating)] : []),
    ...(hasFloating ? [silence()] : []),
  ];
}

/**
 * Others look up by the packet's mark whether its source is behind the interface that it came by,
 * at -140 (IPv6_rpfilter of firewalld): with these marks the tunnel is the way back to a server,
 * and to a pod. They are gone again when the kernel routes the packet.
 */
function reverseChains(fromTunnel: Match): Chain[] {
  return [
    base('egress-reverse', { hook: 'prerouting', priority: -160 }, [
      // Nobody has marked what just came out of the tunnel.
      plainRule(
        { kind: 'setMark', to: 'meta', from: 'ct', mask: MARK_MASK, value: 0 },
        ...[fromTunnel, ...HAS_SLOT(MARK_CT)],
      ),
      plainRule(
        { kind: 'setMark', to: 'meta', from: 'meta', mask: OTHER_BITS, value: GATEWAY },
        ...[fromTunnel, ORIGINAL],
      ),
    ]),
    plainChain(EGRESS_NAMES.answered, [plainRule(clearMark()), plainRule(ACCEPT)]),
  ];
}

/** Packets of connections that have a mark. */
function markedChain(fromTunnel: Match): Chain {
  return plainChain(EGRESS_NAMES.marked, [
    // All packets of a connection go as its first one.
    plainRule(RESTORE, ORIGINAL),
    plainRule(goto(EGRESS_NAMES.gone), ORIGINAL),
    // At the gateway: the answer goes back to the pod's node.
    plainRule(RESTORE, IS_TAKEN(MARK_CT)),
    // At the pod's node: the answer comes from the gateway.
    plainRule(goto(EGRESS_NAMES.answered), fromTunnel, MARK_CT(GATEWAY, 0)),
    // The pod learns of the end when it answers.
    plainRule(ACCEPT, fromTunnel, MARK_CT(MARK_MASK, ENDED)),
    plainRule(goto(EGRESS_NAMES.arrive), fromTunnel),
  ]);
}

/** The way of these connections is not there any more. They cannot leave with another address. */
function goneChain(fromPods: Match): Chain {
  const isTcp: Match = { match: 'l4proto', protocols: ['tcp'] };
  return plainChain(EGRESS_NAMES.gone, [
    { ...plainRule({ kind: 'reject', with: 'tcp reset' }, fromPods, isTcp), counter: true, comment: GONE },
    dropRule('no-route', GONE),
  ]);
}

/** Between routing and NAT: what has a way leaves by it, or not at all. */
function guardChains(toTunnel: Match, fromTunnel: Match, notToPods: MatchOf<'interfaceGroup'>): Chain[] {
  const toPods: Match = { ...notToPods, negated: false };
  return [
    base('egress-guard', { hook: 'forward', priority: -150 }, [
      plainRule({ kind: 'jump', chain: EGRESS_NAMES.foreign }, TUNNEL_PORT),
      // All other traffic.
      plainRule(ACCEPT, MARK_CT(MARK_MASK, 0), MARK_META(MARK_MASK, 0), LABEL(true)),
      plainRule(goto(EGRESS_NAMES.enter), toTunnel),
      // Routed: answers to pods have the mark again, for others that save it.
      plainRule(RESTORE, fromTunnel, REPLY, ...HAS_SLOT(MARK_CT)),
      // At the gateway: whatever is inside, the pods behind its interfaces are.
      dropRule('unknown-pod', INSIDE, ORIGINAL, IS_TAKEN(MARK_CT), fromTunnel, toPods),
      // At the gateway, on the way to the server.
      plainRule(ACCEPT, IS_TAKEN(MARK_CT), ORIGINAL, IS_TAKEN(MARK_META)),
      // A rule, route or device is missing, or somebody else has changed a mark.
      dropRule('no-route', null, ORIGINAL, ...HAS_SLOT(MARK_CT)),
      dropRule('no-route', null, ...HAS_SLOT(MARK_META)),
      // At the gateway, an answer without its route. Forwarded by another way, it would be a new
      // connection at the pod's node, on which the pod answers with its own address.
      dropRule('no-route', null, REPLY, IS_TAKEN(MARK_CT), notToPods),
      dropRule('no-route', 'somebody else has changed its mark', LABEL(false), notToPods),
    ]),
    // A pod's packet, whose CNI would give it this Node's address: the other end would believe it.
    plainChain(
      EGRESS_NAMES.foreign,
      FAMILIES.map((family) => ({
        ...plainRule({ kind: 'drop' }, nodes(family, 'daddr')),
        counter: true,
        comment: NODES_ONLY,
      })),
    ),
    plainChain(EGRESS_NAMES.enter, [
      // Both ends of a connection learn the largest segment that the tunnel takes: its SYN goes
      // through the tunnel at the pod's node, the answer to it at the gateway.
      plainRule({ kind: 'maxSegment', size: 'rt mtu' }, { match: 'tcpSyn' }),
    ]),
    // The outer packet inherits the mark, and would be routed into its own tunnel. After all
    // others: who saves the packet's mark as the connection's, whole, keeps ours (mangle, -150).
    base('egress-leave', { hook: 'postrouting', priority: 320 }, [
      plainRule(clearMark(), toTunnel, MARK_META(MARK_MASK, SENT, true)),
    ]),
  ];
}

/** After every NAT: what this node has taken and not translated stays here. */
function sealChain(notToTunnel: Match, hasFloating: boolean): Chain {
  return transient('egress-seal', [
    dropRule('no-address', null, IS_TAKEN(MARK_META), notToTunnel, ORIGINAL, { match: 'ctNoSnat' }),
    ...(hasFloating
      ? FAMILIES.map((family) => dropRule('not-ready', NOT_ALIVE, IS_TAKEN(MARK_META), ...dead(family)))
      : []),
    // Others' source NAT may be first, and each connection has one.
    plainRule(
      { kind: 'markMap', of: 'meta', mask: MARK_MASK, map: EGRESS_NAMES.sealed },
      ...[IS_TAKEN(MARK_META), notToTunnel, { match: 'ctNew' } as const],
    ),
  ]);
}

const GONE = 'the way of this connection is gone';

/** A floating address whose lease has run out: as the source of what this node sends. */
function dead(family: Family): Match[] {
  return [
    inSet(family, 'saddr', EGRESS_NAMES.floating(family)),
    { match: 'notInSet', family, field: 'saddr', set: EGRESS_NAMES.live(family) },
  ];
}

/** The kernel answers neighbour solicitations with the address as source. */
function silence(): Chain {
  const rules = FAMILIES.map((family) => ({
    ...plainRule({ kind: 'drop' }, ...dead(family)),
    counter: true,
    comment: NOT_ALIVE,
  }));
  return transient('egress-silence', rules);
}

const NODES_ONLY = 'the tunnel is for Nodes only';
const TUNNEL_ONLY = 'only the tunnel sends to its ports';
const WIREGUARD_ONLY = 'between WireGuard devices only the tunnel';
const ENCRYPTED = 'the tunnel is encrypted';
const NOT_ALIVE = 'the address is not alive on this node';
/** Neighbour solicitations and advertisements. */
const NEIGHBOURS: Match = {
  match: 'icmp',
  protocol: 'icmpv6',
  types: [135, 136].map((type) => ({ type, code: null })),
};

/**
 * Packets to the node itself pass this before policies, and before all that is established is
 * accepted.
 */
export function toNodeRules(hasTunnel: boolean): NftRule[] {
  return hasTunnel ? [plainRule({ kind: 'jump', chain: EGRESS_NAMES.toNode })] : [];
}

function untracked(encrypts: boolean, ...fields: readonly ('saddr' | 'daddr')[]): NftRule[] {
  if (encrypts) return [plainRule({ kind: 'notrack' }, ...fields.map(ofWireGuard))];
  return betweenNodes(fields);
}

/** A sender with a Node's key must have an address of a Node too. */
function notOfNodes(port: Match): NftRule[] {
  return FAMILIES.map((family) =>
    dropCounted(NODES_ONLY, port, {
      match: 'notInSet',
      family,
      field: 'saddr',
      set: EGRESS_NAMES.nodes(family),
    }),
  );
}

function betweenNodes(fields: readonly ('saddr' | 'daddr')[], ...matches: readonly Match[]): NftRule[] {
  return FAMILIES.map((family) =>
    plainRule({ kind: 'notrack' }, ...matches, ...fields.map((field) => nodes(family, field))),
  );
}

/**
 * Packets of this machine to the tunnel's ports. A pod's packet in the tunnel has no socket any
 * more; one of a process has, inside and outside, and what it may send is marked inside. So no
 * process without a capability speaks in the name of the tunnel, in the network namespace of the
 * Node either.
 */
function sentChains(toTunnel: Match, hasTunnel: boolean, encrypts: boolean): Chain[] {
  const inner = [echoes('egress'), claims('egress')].map((matches) =>
    plainRule(goto(EGRESS_NAMES.sentInner), toTunnel, ...matches),
  );
  return [
    base('egress-send', { hook: 'output', priority: -300 }, [
      ...(hasTunnel ? inner : []),
      plainRule(goto(EGRESS_NAMES.sent), OWN_PORTS),
      ...(encrypts ? betweenNodes(['daddr'], WIREGUARD_PORT) : []),
    ]),
    plainChain(EGRESS_NAMES.sent, [
      ...(hasTunnel ? [plainRule(goto(EGRESS_NAMES.sentOuter), MARK_META(MARK_MASK, SENT))] : []),
      { ...plainRule({ kind: 'drop' }, { match: 'fromSocket' }), counter: true, comment: TUNNEL_ONLY },
      ...(hasTunnel ? [plainRule(goto(EGRESS_NAMES.sentOuter), TUNNEL_PORT)] : []),
    ]),
    ...(hasTunnel
      ? [
          // Echoes: a full table of connections is no sign of a lost gateway.
          plainChain(EGRESS_NAMES.sentInner, [
            plainRule({ kind: 'setMark', to: 'meta', from: 'meta', mask: OTHER_BITS, value: SENT }),
            plainRule({ kind: 'notrack' }),
          ]),
          plainChain(EGRESS_NAMES.sentOuter, [plainRule(clearMark()), ...untracked(encrypts, 'daddr')]),
        ]
      : []),
  ];
}

/**
 * The tunnel's own packets: not tracked, from Nodes only, and nothing but echoes and claims inside
 * for this node.
 */
function tunnelChains(fromTunnel: Match, floating: readonly NftRule[], encrypts: boolean): Chain[] {
  return [
    // Else conntrack has a second entry for each connection, by the hash in the source port.
    transient('egress-untrack', [
      plainRule(goto(EGRESS_NAMES.untracked), TUNNEL_PORT),
      plainRule({ kind: 'notrack' }, fromTunnel, ...echoes('ingress')),
      plainRule({ kind: 'notrack' }, fromTunnel, ...claims('ingress')),
    ]),
    plainChain(EGRESS_NAMES.untracked, untracked(encrypts, 'saddr', 'daddr')),
    plainChain(EGRESS_NAMES.toNode, [
      plainRule(goto(EGRESS_NAMES.outer), TUNNEL_PORT),
      ...(encrypts ? notOfNodes(WIREGUARD_PORT) : []),
      plainRule(RETURN, fromTunnel, ...echoes('ingress')),
      plainRule(RETURN, fromTunnel, ...claims('ingress')),
      { ...plainRule({ kind: 'drop' }, CLAIMS), counter: true, comment: 'for agents, by the tunnel' },
      { ...plainRule({ kind: 'drop' }, fromTunnel), counter: true, comment: NOT_SERVED },
      // Neighbours ask for floating addresses, and answer them; see egress-silence.
      ...(floating.length > 0 ? [plainRule(RETURN, NEIGHBOURS)] : []),
      ...floating,
    ]),
    plainChain(EGRESS_NAMES.outer, [
      ...floating,
      ...(encrypts ? [dropCounted(ENCRYPTED, byWireGuard('iifgroup', true))] : []),
      // The MAC in it decides who the pod's node is: it must be that of the outer address.
      ...FAMILIES.map((family) =>
        plainRule({ kind: 'addressInnerMacMap', family, map: EGRESS_NAMES.outerEnds(family) }),
      ),
      { ...plainRule({ kind: 'drop' }), counter: true, comment: NODES_ONLY },
    ]),
    plainChain(EGRESS_NAMES.knownOuter, [plainRule(RETURN)]),
  ];
}

/**
 * Between WireGuard devices there is nothing but the tunnel, and it is nowhere else: who knows a
 * node's address inside cannot speak to it, or in its name, by another way.
 */
function wireguardChains(): Chain[] {
  return [
    transient('egress-decrypted', [
      plainRule(ACCEPT, byWireGuard('iifgroup'), TUNNEL_PORT, ofWireGuard('saddr'), ofWireGuard('daddr')),
      dropCounted(WIREGUARD_ONLY, byWireGuard('iifgroup')),
      dropCounted(WIREGUARD_ONLY, ofWireGuard('saddr')),
      dropCounted(WIREGUARD_ONLY, ofWireGuard('daddr')),
      ...betweenNodes(['saddr', 'daddr'], WIREGUARD_PORT),
    ]),
    // After all others: whatever they did to it.
    transient('egress-encrypt', [
      plainRule(ACCEPT, byWireGuard('oifgroup'), TUNNEL_PORT, ofWireGuard('saddr'), ofWireGuard('daddr')),
      dropCounted(WIREGUARD_ONLY, byWireGuard('oifgroup')),
      dropCounted(WIREGUARD_ONLY, ofWireGuard('daddr')),
      ...FAMILIES.map((family) => dropCounted(ENCRYPTED, TUNNEL_PORT, nodes(family, 'daddr'))),
    ]),
  ];
}

function dropCounted(comment: string, ...matches: readonly Match[]): NftRule {
  return { ...plainRule({ kind: 'drop' }, ...matches), counter: true, comment };
}

/** No reset, no ICMP error: the connection may live on at another node. */
function toFloating(): NftRule[] {
  return FAMILIES.map((family) => ({
    ...plainRule({ kind: 'drop' }, inSet(family, 'daddr', EGRESS_NAMES.floating(family))),
    counter: true,
    comment: 'no connection has this address here',
  }));
}

function clearMark(): Statement {
  return { kind: 'setMark', to: 'meta', from: 'meta', mask: OTHER_BITS, value: 0 };
}

function transient(name: keyof typeof TRANSIENT_BASES, rules: readonly NftRule[]): Chain {
  return { ...plainChain(name, rules), base: TRANSIENT_BASES[name] };
}

function base(
  name: string,
  { type = 'filter', hook, priority }: Partial<BaseChain> & Pick<BaseChain, 'hook' | 'priority'>,
  rules: readonly NftRule[],
): Chain {
  return { ...plainChain(name, rules), base: { type, hook, priority, policy: 'accept' } };
}
