import type { EgressFlow } from '../../apis/egress/flow.ts';
import type { EgressOutcome, EgressTake, NodeEgress } from '../../apis/egress/node-egress.ts';
import { type Address, formatAddress, parseAddress } from '../../lib/net/address.ts';
import type { Interval } from '../../lib/net/interval.ts';
import { hasMember } from '../../lib/net/member-set.ts';
import { inRange, parseAddress as parseAddressPlainly, parseCidr } from '../oracle/address.ts';
import type { EgressAnswer } from '../oracle/egress/permission.ts';

/** A packet that a pod's interface of a node meets. */
export interface SteeredPacket {
  /** The node that the source is on. */
  readonly node: string;
  readonly src: string;
  readonly dst: string;
  /** The source is a pod's own address. */
  readonly isPod: boolean;
}

/**
 * Walks through the compiled values of the nodes as the datapath does: inside, source, class,
 * outcome; slot and tunnel; at the gateway arrival, take, address. Gives every end that the packet
 * may come to by the hashes, as answers of `explain`; a packet that a gateway does not serve, or
 * that leaves with an address that it does not own, is an end with that reason.
 */
export function walkPacket(nodes: ReadonlyMap<string, NodeEgress>, packet: SteeredPacket): EgressAnswer[] {
  const egress = nodes.get(packet.node);
  const [src, dst] = [parseAddress(packet.src), parseAddress(packet.dst)];
  if (egress === undefined || src === null || dst === null)
    throw new Error(`no way: ${JSON.stringify(packet)}`);
  if (hasMember(egress.inside, dst)) return [untouched('inside')];
  const id = classOf(egress, src);
  if (id === undefined)
    return [egress.unknownPods === 'Hold' ? drop(null, 'unknown-pod') : untouched('no-policy')];
  if (id === null) return [untouched('no-policy')];
  const found = egress.classes.get(id);
  if (found === undefined) return [drop(null, `no class ${id}`)];
  const range = (dst.family === 4 ? found.ipv4 : found.ipv6).find((one) => holds(one.range, dst));
  if (range === undefined) return [untouched('no-policy')];
  const outcome = egress.outcomes.get(range.outcome);
  if (outcome === undefined) return [drop(null, `no outcome ${range.outcome}`)];
  return endsOf(nodes, egress, outcome, packet, dst);
}

/** Undefined: the node does not know the source. */
function classOf(egress: NodeEgress, src: Address): string | null | undefined {
  const { family, value } = src;
  const known = egress.sources.get(formatAddress(src));
  if (known !== undefined) return known;
  const subnet = egress.subnets.find((one) => one.family === family && holds(one.range, { value }));
  return subnet?.class;
}

function endsOf(
  nodes: ReadonlyMap<string, NodeEgress>,
  egress: NodeEgress,
  outcome: EgressOutcome,
  packet: SteeredPacket,
  dst: Address,
): EgressAnswer[] {
  const { action } = outcome;
  const policy = nameOf(outcome);
  switch (action.kind) {
    case 'pass':
      return [untouched('no-policy')];
    case 'direct':
      return [{ ...untouched('policy'), policy }];
    case 'drop':
      return [drop(policy, action.reason)];
    case 'take':
      return taken(egress, packet.node, action.take, policy, dst);
    case 'slots':
      return action.slots.flatMap((number) => {
        const slot = egress.slots.get(number);
        if (slot === undefined || slot.number !== number) return [drop(policy, `no slot ${number}`)];
        if (slot.node === packet.node) return taken(egress, packet.node, slot.take, policy, dst);
        return arrived(nodes, egress, slot.node, { packet, policy, dst });
      });
  }
}

interface Sent {
  readonly packet: SteeredPacket;
  readonly policy: string | null;
  readonly dst: Address;
}

/** Through the tunnel, to a gateway that must know the pod and the node it comes from. */
function arrived(
  nodes: ReadonlyMap<string, NodeEgress>,
  from: NodeEgress,
  name: string,
  { packet, policy, dst }: Sent,
): EgressAnswer[] {
  const gateway = nodes.get(name);
  const arrival = gateway?.arrivals.get(packet.src);
  if (gateway === undefined || arrival?.node !== packet.node) return [drop(policy, 'not served')];
  const ends = [from.tunnel, gateway.peers.get(packet.node), gateway.tunnel, from.peers.get(name)];
  const [own, back, there, itsOwn] = ends.map((end) => JSON.stringify(end));
  if (from.tunnel === null || gateway.tunnel === null || own !== back || there !== itsOwn)
    return [drop(policy, `no tunnel between ${packet.node} and ${name}`)];
  const take = arrival.takes.find((one) => holds(one.range, dst))?.take;
  if (take === undefined) return [drop(policy, 'not served to there')];
  return taken(gateway, name, take, policy, dst);
}

/** How a gateway would take the packet if it came through the tunnel; null: it would not. */
export function takeOf(gateway: NodeEgress, { node, src, dst }: SteeredPacket): EgressTake | null {
  const destination = parseAddress(dst);
  const arrival = gateway.arrivals.get(src);
  if (destination === null || arrival?.node !== node || !isOfFamily(src, dst)) return null;
  const found = arrival.takes.find(({ range }) => holds(range, destination));
  return found === undefined ? null : (gateway.takes.get(found.take) ?? null);
}

function isOfFamily(src: string, dst: string): boolean {
  return src.includes(':') === dst.includes(':');
}

/** The source NAT of a gateway: one end for each address. */
function taken(
  gateway: NodeEgress,
  name: string,
  number: number,
  policy: string | null,
  dst: Address,
): EgressAnswer[] {
  const take = gateway.takes.get(number);
  if (take === undefined) return [drop(policy, `no take ${number} on ${name}`)];
  const addresses = addressesOf(take, dst);
  if (addresses.length === 0) return [drop(policy, `no address in take ${number} on ${name}`)];
  return addresses.map((address) => {
    if (address !== null && !gateway.owned.some(({ addresses }) => addresses.includes(address)))
      return drop(policy, `${name} does not own ${address}`);
    return { verdict: 'Gateway', policy, gateway: null, node: name, address, reason: 'policy' };
  });
}

function addressesOf(take: EgressTake, { family }: Address): readonly (string | null)[] {
  if (take.kind === 'node') return [null];
  return family === 4 ? take.ipv4 : take.ipv6;
}

function holds({ first, last }: Interval, { value }: Pick<Address, 'value'>): boolean {
  return first <= value && value <= last;
}

function untouched(reason: string): EgressAnswer {
  return { verdict: 'Direct', policy: null, gateway: null, node: null, address: null, reason };
}

function drop(policy: string | null, reason: string): EgressAnswer {
  return { verdict: 'Drop', policy, gateway: null, node: null, address: null, reason };
}

function nameOf({ policy }: EgressOutcome): string | null {
  if (policy === null) return null;
  return policy.kind === 'EgressPolicy' ? `${policy.namespace}/${policy.name}` : policy.name;
}

/** The nodes that the flow's packets may begin on, with their source. Of a Node's own: none. */
export function packetsOf({ pod: named, src, dst }: EgressFlow, raw: readonly object[]): SteeredPacket[] {
  const objects = raw as readonly ManifestLike[];
  const nodes = objects.filter(({ kind }) => kind === 'Node');
  const names = nodes.map(({ metadata }) => metadata.name);
  const pods = objects.filter(isRunningPod);
  const canonical = (text: string): string => {
    const address = parseAddress(text);
    return address === null ? text : formatAddress(address);
  };
  const addressesOf = ({ status }: ManifestLike): string[] =>
    (status?.podIPs?.map(({ ip }) => ip) ?? [status?.podIP ?? '']).map(canonical);
  const to = canonical(dst);
  const text = src === undefined ? undefined : canonical(src);
  const pod = pods.find(({ metadata, ...rest }) =>
    text === undefined
      ? named === `${metadata.namespace}/${metadata.name}`
      : addressesOf({ metadata, ...rest }).includes(text),
  );
  if (pod !== undefined) {
    const own = addressesOf(pod).find((one) => one !== '' && one.includes(':') === to.includes(':'));
    const node = pod.spec?.nodeName;
    return own === undefined || node === undefined || !names.includes(node)
      ? []
      : [{ node, src: own, dst: to, isPod: true }];
  }
  if (text === undefined) return [];
  const isNodes = nodes.some(({ status, metadata }) =>
    [
      ...(status?.addresses ?? []).filter(({ type }) => type !== 'Hostname').map(({ address }) => address),
      ...(metadata.annotations?.['nodewall.io/addresses'] ?? '').split(','),
    ].some((own) => canonical(own.trim()) === text),
  );
  if (isNodes) return [];
  const home = nodes.find(({ spec }) => (spec?.podCIDRs ?? []).some((cidr) => isIn(cidr, text)));
  return (home === undefined ? names : [home.metadata.name]).map((node) => ({
    node,
    src: text,
    dst: to,
    isPod: false,
  }));
}

function isIn(cidr: string, text: string): boolean {
  const address = parseAddressPlainly(text);
  return address !== undefined && inRange(parseCidr(cidr), address);
}

function isRunningPod({ kind, spec, status }: ManifestLike): boolean {
  const isFinished = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  return kind === 'Pod' && spec?.hostNetwork !== true && !isFinished;
}

interface ManifestLike {
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: {
    readonly nodeName?: string;
    readonly hostNetwork?: boolean;
    readonly podCIDRs?: readonly string[];
  };
  readonly status?: {
    readonly phase?: string;
    readonly podIP?: string;
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly addresses?: readonly { readonly type: string; readonly address: string }[];
  };
}
