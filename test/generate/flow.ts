import fc from 'fast-check';
import type { Flow } from '../oracle/flow.ts';
import type { AddressPlan } from './address.ts';
import { addressNear, familyOf, randomAddress, shift, toPool } from './address.ts';
import type { Aim } from './aim.ts';
import { maybe, oneOf, weighted, withoutUndefined } from './choice.ts';
import { exemptTraffic } from './exempt.ts';
import type { Traffic } from './traffic.ts';
import { anyTraffic, byNumber, trafficAt } from './traffic.ts';

/** What flows are drawn towards. */
export interface FlowTargets {
  ruleAims: Aim[];
  failsafeAims: Aim[];
  /** Addresses of the Node under test. */
  own: string[];
  /** Addresses of Nodes and pods. */
  known: string[];
  plan: AddressPlan | undefined;
}

/** A flow that comes close to what policies, cluster and failsafe lists name; with a plan, one that can be sent. */
export function flow(targets: FlowTargets): fc.Arbitrary<Flow> {
  const plain: Aim[] = [noAim('ingress'), noAim('egress')];
  const rest = targets.failsafeAims.length === 0 ? plain : targets.failsafeAims;
  const aims = targets.ruleAims.length === 0 ? plain : targets.ruleAims;
  const isSendable = targets.plan !== undefined;
  const aimed = weighted([6, oneOf(aims)], [1, oneOf(rest)]).chain((aim) =>
    weighted([5, trafficAt(aim, isSendable)], [1, anyTraffic(isSendable)]).chain((traffic) =>
      toFlow(targets, aim, traffic),
    ),
  );
  if (isSendable) return aimed;
  const ownWay = fc.constantFrom('ingress' as const, 'egress' as const);
  return weighted<Flow>([14, vague(aimed)], [8, aimed], [3, exemptTraffic(targets.own)], [1, bare(ownWay)]);
}

function noAim(direction: Aim['direction']): Aim {
  return { direction, ports: [], protocols: [], addresses: [] };
}

/** Nothing known but the direction. */
function bare(direction: fc.Arbitrary<Aim['direction']>): fc.Arbitrary<Flow> {
  return direction.map((way) => ({ direction: way }));
}

function toFlow(targets: FlowTargets, aim: Aim, traffic: Traffic): fc.Arbitrary<Flow> {
  return oneOf(traffic.families).chain((family) =>
    fc.tuple(localEnd(targets, family), remoteEnd(targets, aim, family)).map(([local, remote]) => {
      const { families: _, group, ...rest } = traffic;
      const isIngress = aim.direction === 'ingress';
      const [src, dst] = isIngress ? [remote, local] : [local, remote];
      return { direction: aim.direction, src, dst: group ?? dst, ...rest };
    }),
  );
}

function localEnd({ own, plan }: FlowTargets, family: 4 | 6): fc.Arbitrary<string> {
  const ends = plan === undefined ? own : plan.nodeAddresses.flatMap(({ v4, v6 }) => [v4, v6]);
  const usable = ends.filter((text) => familyOf(text) === family);
  return usable.length === 0 ? randomAddress(family) : oneOf(usable);
}

function remoteEnd({ known, plan }: FlowTargets, aim: Aim, family: 4 | 6): fc.Arbitrary<string> {
  if (plan !== undefined) return oneOf(plan.clientAddresses.map(({ v4, v6 }) => (family === 4 ? v4 : v6)));
  const ofFamily = (list: string[]) => list.filter((text) => familyOf(text) === family);
  const [edges, members] = [ofFamily(aim.addresses), ofFamily(known)];
  const options: [number, fc.Arbitrary<string>][] = [[3, addressNear(toPool(), family)]];
  if (edges.length > 0) options.push([10, oneOf(edges)]);
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
  return fc.tuple(flows, extras).map(([drawn, { interfaceGroup, traffic, isNumber, absent }]) => {
    const numbered = isNumber
      ? byNumber({ families: [], protocol: drawn.protocol ?? 6 }).protocol
      : drawn.protocol;
    // Without any address the IP version is unknown, and whether UDP 68 to 67 is DHCP then is nobody's guess.
    const dropped = absent.includes('src') ? absent.filter((field) => field !== 'dst') : absent;
    const known = Object.entries({ ...drawn, protocol: numbered }).filter(
      ([field]) => !dropped.includes(field),
    );
    return withoutUndefined({ ...Object.fromEntries(known), interfaceGroup, traffic }) as Flow;
  });
}
