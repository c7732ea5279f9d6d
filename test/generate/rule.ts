import fc from 'fast-check';
import type { PeerManifest, PortManifest, ProtocolManifest, RuleManifest } from '../oracle/manifest.ts';
import type { AddressPlan } from './address.ts';
import { fields, maybe, oneOf, weighted } from './choice.ts';
import { peers } from './peer.ts';
import { services } from './service.ts';

/** What a rule's generator must know of its policy. */
export interface RuleContext {
  direction: 'ingress' | 'egress';
  /** Antrea's objects lack the fields that are ours alone. */
  isAntrea: boolean;
  plan: AddressPlan | undefined;
}

/** What a rule matches: its services and its peers. */
interface Match {
  ports?: PortManifest[];
  protocols?: ProtocolManifest[];
  peers?: PeerManifest[];
}

const failsafePorts: PortManifest[] = [
  { port: 6443 },
  { protocol: 'TCP', port: 2379, endPort: 2380 },
  { protocol: 'TCP', port: 10250 },
  { protocol: 'UDP', port: 53 },
  { port: 53 },
];

/** One rule without name and appliedTo, which the policy gives. */
export function rule(context: RuleContext): fc.Arbitrary<RuleManifest> {
  const ordinary = fc.tuple(
    weighted([6, fc.constant('Allow')], [5, fc.constant('Drop')], [5, fc.constant('Reject')]),
    fc
      .tuple(
        services(context.isAntrea),
        fields<Match>({ ports: none, protocols: none, peers: peers(context.plan) }),
      )
      .map(([service, peer]): Match => ({ ...service, ...peer }))
      .filter((match) => !isBlanket(match)),
  );
  const deny = fc.constantFrom('Drop', 'Reject');
  const blanket = fc.tuple(
    deny,
    fc.constantFrom<Match>({}, { peers: [] }, { peers: [{ nodeSelector: {} }] }),
  );
  const closing = fc.tuple(
    deny,
    oneOf(failsafePorts).map((port): Match => ({ ports: [port] })),
  );
  // Logging itself is not supported yet; saying that there is none is.
  const logging = fields<Pick<RuleManifest, 'enableLogging'>>({
    enableLogging: maybe(10, fc.constant(false)),
  });
  return fc
    .tuple(weighted<[string, Match]>([24, ordinary], [2, blanket], [1, closing]), logging)
    .map(([[action, match], log]) => toRule(context, action, match, log));
}

const none = fc.constant(undefined);

function toRule(context: RuleContext, action: string, match: Match, log: object): RuleManifest {
  const { peers: list, ...service } = match;
  const side = list === undefined ? {} : { [context.direction === 'ingress' ? 'from' : 'to']: list };
  return { action, ...side, ...service, ...log };
}

/** A rule for everything ends the evaluation, so it is drawn on purpose only. */
function isBlanket(match: Match): boolean {
  return [match.peers, match.ports, match.protocols].every((list) => (list ?? []).length === 0);
}
