import fc from 'fast-check';
import type {
  PeerManifest,
  PortManifest,
  ProtocolManifest,
  RuleManifest,
  ServiceReference,
} from '../oracle/manifest.ts';
import { fields, maybe, oneOf, weighted } from './choice.ts';
import { serviceReference } from './endpoint.ts';
import { peers } from './peer.ts';
import type { RuleContext, Scope } from './selector.ts';
import { services } from './service.ts';

/** What a rule matches: its services and its peers. */
interface Match {
  ports?: PortManifest[];
  protocols?: ProtocolManifest[];
  peers?: PeerManifest[];
  toServices?: ServiceReference[];
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
  const { features } = context.scope;
  const pass: [number, fc.Arbitrary<string>][] = features.has('pass') ? [[2, fc.constant('Pass')]] : [];
  const action = weighted(
    [6, fc.constant('Allow')],
    [5, fc.constant('Drop')],
    [5, fc.constant('Reject')],
    ...pass,
  );
  const ordinary = fc.tuple(
    action,
    fc
      .tuple(
        services(context.isAntrea),
        fields<Match>({
          ports: none,
          protocols: none,
          peers: peers(context),
          toServices: noServices(context),
        }),
      )
      .map(([service, peer]): Match => ({ ...service, ...peer }))
      .filter((match) => !isBlanket(match)),
  );
  const deny = fc.constantFrom('Drop', 'Reject');
  const blanket = fc.tuple(
    features.has('pass') ? weighted([6, deny], [1, fc.constant('Pass')]) : deny,
    fc.constantFrom<Match>({}, { peers: [] }, { peers: [{ nodeSelector: {} }] }),
  );
  const closing = fc.tuple(
    deny,
    oneOf(failsafePorts).map((port): Match => ({ ports: [port] })),
  );
  const kinds: [number, fc.Arbitrary<[string, Match]>][] = [
    [24, ordinary],
    [2, blanket],
    [1, closing],
  ];
  if (features.has('toServices') && context.direction === 'egress') {
    const toServices = fc.array(serviceReference(), { minLength: 1, maxLength: 2 });
    kinds.push([7, fc.tuple(action, fc.record({ toServices }))]);
  }
  return fc
    .tuple(weighted(...kinds), logging(context.scope))
    .map(([[drawn, match], log]) => toRule(context, drawn, match, log));
}

const none = fc.constant(undefined);

/** An empty list, which is as if absent, now and then. */
function noServices({ direction, scope }: RuleContext): fc.Arbitrary<ServiceReference[] | undefined> {
  return scope.features.has('toServices') && direction === 'egress' ? maybe(4, fc.constant([])) : none;
}

/** Whether the rule logs, and under which label; none has an influence on verdicts. */
function logging({ features }: Scope): fc.Arbitrary<Pick<RuleManifest, 'enableLogging' | 'logLabel'>> {
  const isOff = fields<Pick<RuleManifest, 'enableLogging'>>({ enableLogging: maybe(10, fc.constant(false)) });
  if (!features.has('logging')) return isOff;
  const logLabel = maybe(60, fc.constantFrom('web', 'audit-1', 'Team_A.v2', 'x'.repeat(63)));
  const isOn = fields<Pick<RuleManifest, 'enableLogging' | 'logLabel'>>({
    enableLogging: fc.constant(true),
    logLabel,
  });
  return weighted([5, isOff], [1, isOn]);
}

function toRule(context: RuleContext, action: string, match: Match, log: object): RuleManifest {
  const { peers: list, ...service } = match;
  const side = list === undefined ? {} : { [context.direction === 'ingress' ? 'from' : 'to']: list };
  return { action, ...side, ...service, ...log };
}

/** A rule for everything ends the evaluation, so it is drawn on purpose only. */
function isBlanket(match: Match): boolean {
  return [match.peers, match.ports, match.protocols, match.toServices].every(
    (list) => (list ?? []).length === 0,
  );
}
