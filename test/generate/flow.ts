import fc from 'fast-check';
import type { Flow } from '../oracle/flow.ts';
import {
  type AddressPlan,
  addressNear,
  canonical,
  familyOf,
  randomAddress,
  shift,
  toPool,
} from './address.ts';
import { type Aim, noAim } from './aim.ts';
import { type Feature, maybe, oneOf, weighted, withoutUndefined } from './choice.ts';
import { exemptTraffic } from './exempt.ts';
import { anyTraffic, byNumber, type Traffic, trafficAt } from './traffic.ts';

/** What flows are drawn towards. */
interface FlowTargets {
  ruleAims: Aim[];
  failsafeAims: Aim[];
  /** Addresses of the Node under test. */
  own: string[];
  /** Addresses of Nodes and pods. */
  known: string[];
  plan: AddressPlan | undefined;
  features: ReadonlySet<Feature>;
}

/**
 * A flow that comes close to what policies, cluster and failsafe lists name; with a plan, one that
 * can be sent.
 */
export function flow(targets: FlowTargets): fc.Arbitrary<Flow> {
  const plain: Aim[] = [noAim('ingress'), noAim('egress')];
  const rest = targets.failsafeAims.length === 0 ? plain : targets.failsafeAims;
  const aims = targets.ruleAims.length === 0 ? plain : targets.ruleAims;
  const isSendable = targets.plan !== undefined;
  const aimed = weighted([6, oneOf(aims)], [1, oneOf(rest)])
    .chain((aim) => atEndpoint(targets, aim))
    .chain((aim) =>
      weighted([5, trafficAt(aim, isSendable)], [1, anyTraffic(isSendable)]).chain((traffic) =>
        toFlow(targets, aim, traffic),
      ),
    );
  if (isSendable) return aimed;
  const ownWay = fc.constantFrom('ingress' as const, 'egress' as const);
  const natted = throughNat(aimed, rest);
  return weighted<Flow>(
    [14, vague(aimed)],
    [8, aimed],
    [4, natted],
    [2, vague(natted)],
    [3, exemptTraffic(targets)],
    [
      4,
      answerTo(oneOf(rest).chain((aim) => trafficAt(aim, false).chain((one) => toFlow(targets, aim, one)))),
    ],
    [1, bare(ownWay)],
  );
}

/** An untracked packet with the ends of these flows, the other way. */
function answerTo(flows: fc.Arbitrary<Flow>): fc.Arbitrary<Flow> {
  return flows.map(({ traffic, originalDst: _, originalDstPort: __, ...flow }) => {
    if (traffic === 'NodePort') return { ...flow, traffic };
    const { direction, src, dst, srcPort, dstPort } = flow;
    const way = direction === 'ingress' ? 'egress' : 'ingress';
    const back = { direction: way, src: dst, dst: src, srcPort: dstPort, dstPort: srcPort } as const;
    return withoutUndefined({ ...flow, ...back, untracked: true }) as Flow;
  });
}

/** The flow with another destination before NAT, as a rule one that the failsafe list names. */
function throughNat(flows: fc.Arbitrary<Flow>, aims: Aim[]): fc.Arbitrary<Flow> {
  return flows.chain((drawn) => {
    const family = familyOf(drawn.dst ?? drawn.src ?? '');
    const listed = aims.filter(({ direction }) => direction === drawn.direction);
    const aim = listed.length === 0 ? noAim(drawn.direction) : undefined;
    if (drawn.traffic === 'NodePort' || drawn.dstPort === undefined) return fc.constant(drawn);
    return (aim === undefined ? oneOf(listed) : fc.constant(aim)).chain(({ addresses, ports }) => {
      const near = addresses.filter((text) => familyOf(text) === family);
      const port = oneOf(ports.length === 0 ? [{}] : ports).chain((one) =>
        trafficAt({ ...noAim('egress'), ports: [one] }, false),
      );
      return fc
        .record({
          originalDst: maybe(80, near.length === 0 ? randomAddress(family) : oneOf(near)),
          originalDstPort: maybe(
            80,
            port.map(({ dstPort }) => dstPort ?? drawn.dstPort),
          ),
        })
        .map((original) => withoutUndefined({ ...drawn, ...original }) as Flow);
    });
  });
}

/**
 * One of the endpoints where the rule has any: as a rule with its own port, else with another's.
 */
function atEndpoint({ plan }: FlowTargets, aim: Aim): fc.Arbitrary<Aim> {
  const clients = plan?.clientAddresses.flatMap(({ v4, v6 }) => [canonical(v4), canonical(v6)]);
  const usable = aim.endpoints.filter(({ address }) => clients?.includes(canonical(address)) ?? true);
  if (usable.length === 0) return fc.constant({ ...aim, endpoints: [] });
  const endpoint = oneOf(usable);
  return fc.tuple(endpoint, weighted([5, fc.constant(undefined)], [1, endpoint])).map(([one, other]) => {
    return { ...aim, endpoints: usable, addresses: [one.address], ports: [(other ?? one).port] };
  });
}

/** Nothing known but the direction. */
function bare(direction: fc.Arbitrary<Aim['direction']>): fc.Arbitrary<Flow> {
  return direction.map((way) => ({ direction: way }));
}

function toFlow(targets: FlowTargets, aim: Aim, traffic: Traffic): fc.Arbitrary<Flow> {
  // An exact destination is of one family, and nothing else is worth a flow.
  const wanted = aim.endpoints.length > 0 ? aim.addresses.map(familyOf) : [];
  const usable = traffic.families.filter((family) => wanted.includes(family));
  return fc
    .record({
      family: oneOf(usable.length > 0 ? usable : traffic.families),
      kind: trafficKind(targets, aim, traffic),
    })
    .chain(({ family, kind }) =>
      fc
        .tuple(localEnd(targets, family, kind), remoteEnd(targets, aim, family), enteredBy(targets, aim))
        .map(([local, remote, interfaceGroup]) => {
          const { families: _, group, ...rest } = traffic;
          const isIngress = aim.direction === 'ingress';
          const [src, dst] = isIngress ? [remote, local] : [local, remote];
          const extra = { interfaceGroup: groupTowards(targets, remote) ?? interfaceGroup, traffic: kind };
          return withoutUndefined({
            direction: aim.direction,
            src,
            dst: group ?? dst,
            ...rest,
            ...extra,
          }) as Flow;
        }),
    );
}

/**
 * NodePort for those rules as a rule and for others rarely; destination NAT is for connections with
 * ports.
 */
function trafficKind(
  { features, plan }: FlowTargets,
  aim: Aim,
  { protocol }: Traffic,
): fc.Arbitrary<'NodePort' | undefined> {
  const hasPorts = ['tcp', 'udp', 'sctp'].includes(String(protocol));
  const isPossible = features.has('nodePort') && aim.direction === 'ingress';
  if (!isPossible || (plan !== undefined && !hasPorts)) return fc.constant(undefined);
  return maybe(aim.traffic === 'NodePort' ? 85 : 4, fc.constant('NodePort'));
}

/** The interface of one of the rule's link groups, as a rule. */
function enteredBy({ plan }: FlowTargets, aim: Aim): fc.Arbitrary<string | number | undefined> {
  if (plan !== undefined || aim.interfaceGroups.length === 0) return fc.constant(undefined);
  return maybe(85, weighted([6, oneOf(aim.interfaceGroups)], [1, fc.constantFrom(0, 7, 'clusternet')]));
}

/** What the plan says of the client's interface. */
function groupTowards({ plan }: FlowTargets, remote: string): number | undefined {
  return plan?.clientAddresses.find(({ v4, v6 }) => v4 === remote || v6 === remote)?.group;
}

/** An address of the Node; that of a load balancer it answers for, now and then. */
function localEnd(
  { own, plan }: FlowTargets,
  family: 4 | 6,
  kind: 'NodePort' | undefined,
): fc.Arbitrary<string> {
  const ends = plan === undefined ? own : plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]);
  const usable = ends.filter((text) => familyOf(text) === family);
  const ownEnd = usable.length === 0 ? randomAddress(family) : oneOf(usable);
  if (plan !== undefined || kind === undefined) return ownEnd;
  return weighted([4, ownEnd], [1, addressNear(toPool(), family)]);
}

function remoteEnd({ known, plan }: FlowTargets, aim: Aim, family: 4 | 6): fc.Arbitrary<string> {
  const ofFamily = (list: string[]) => list.filter((text) => familyOf(text) === family);
  if (plan !== undefined) {
    const clients = plan.clientAddresses.map(({ v4, v6 }) => (family === 4 ? v4 : v6));
    const aimed = new Set(aim.addresses.map(canonical));
    const meant = clients.filter((text) => aimed.has(canonical(text)));
    const anyone = oneOf(clients);
    return meant.length === 0
      ? anyone
      : weighted([aim.endpoints.length > 0 ? 16 : 3, oneOf(meant)], [2, anyone]);
  }
  if (aim.endpoints.length > 0 && ofFamily(aim.addresses).length > 0) {
    return weighted([8, oneOf(ofFamily(aim.addresses))], [1, addressNear(toPool(), family)]);
  }
  const [edges, members] = [ofFamily(aim.addresses), ofFamily(known)];
  const options: [number, fc.Arbitrary<string>][] = [[3, addressNear(toPool(), family)]];
  if (edges.length > 0) options.push([14, oneOf(edges)]);
  if (members.length > 0) {
    options.push([4, oneOf(members)], [1, oneOf(members).map((text) => shift(text, 1))]);
  }
  return weighted(...options);
}

/** The flow with fields left out, the protocol by number, and an interface group now and then. */
function vague(flows: fc.Arbitrary<Flow>): fc.Arbitrary<Flow> {
  const extras = fc.record({
    interfaceGroup: maybe(15, fc.constantFrom<string | number>('pods', 8, 'clusternet', 9, 20, 0)),
    traffic: maybe(5, fc.constant<'Host'>('Host')),
    isNumber: weighted([3, fc.constant(false)], [1, fc.constant(true)]),
    absent: fc.subarray(['src', 'dst', 'protocol', 'srcPort', 'dstPort', 'icmpType', 'icmpCode'], {
      maxLength: 2,
    }),
  });
  return fc.tuple(flows, extras).map(([drawn, { isNumber, absent, ...extra }]) => {
    const interfaceGroup = drawn.interfaceGroup ?? extra.interfaceGroup;
    const traffic = drawn.traffic ?? extra.traffic;
    const numbered = isNumber
      ? byNumber({ families: [], protocol: drawn.protocol ?? 6 }).protocol
      : drawn.protocol;
    // Without any address the IP version is unknown, and whether UDP 68 to 67 is DHCP then is
    // nobody's guess.
    const dropped = absent.includes('src') ? absent.filter((field) => field !== 'dst') : absent;
    const known = Object.entries({ ...drawn, protocol: numbered }).filter(
      ([field]) => !dropped.includes(field),
    );
    return withoutUndefined({ ...Object.fromEntries(known), interfaceGroup, traffic }) as Flow;
  });
}
