import type {
  ClusterNetworkPolicy,
  ClusterObjects,
  Direction,
  Guardrail,
  PolicyTraffic,
  RequiredFlow,
} from '../../apis/objects.ts';
import { memo } from '../../lib/sharing/memo.ts';
import { present } from '../../lib/sharing/present.ts';

/** Begins the names of these policies: no object of Kubernetes has such a name. */
const PREFIX = 'Guardrail/';

/**
 * Adds Guardrails as policies to the objects, so that `compile` resolves their Nodes and peers as
 * those of policies. The same Guardrail gives the same policies.
 */
export function withGuardrails(): (objects: ClusterObjects) => ClusterObjects {
  const policiesOf = memo(asPolicies);
  return (objects) => {
    if (objects.guardrails.length === 0) return objects;
    const added = objects.guardrails.flatMap((guardrail) => policiesOf(guardrail));
    return { ...objects, policies: [...objects.policies, ...added] };
  };
}

/** The Guardrail that a compiled policy is made of; null: it is a policy. */
export function guardrailOf(policy: string): string | null {
  return policy.startsWith(PREFIX) ? (policy.split('/')[1] ?? null) : null;
}

/**
 * One policy for each kind of traffic and direction. The names of its rules are the places of the
 * items, as in `mustAllow[0]`.
 */
function asPolicies({ apiGroup, name, uid, generation, spec }: Guardrail): ClusterNetworkPolicy[] {
  const { nodeSelector, mustAllow = [], mustDeny = [] } = spec;
  const items = [
    ...mustAllow.map((flow, i) => ({ flow, place: `mustAllow[${i}]`, action: 'Allow' as const })),
    ...mustDeny.map((flow, i) => ({ flow, place: `mustDeny[${i}]`, action: 'Drop' as const })),
  ];
  const policy = (traffic: PolicyTraffic): ClusterNetworkPolicy[] => {
    const of = (direction: Direction) =>
      items
        .filter(({ flow }) => flow.direction === direction && (flow.traffic ?? 'Host') === traffic)
        .map(({ flow, place, action }) => ({ ...peersAndPorts(flow), name: place, action }));
    const [ingress, egress] = [of('ingress'), of('egress')];
    if (ingress.length + egress.length === 0) return [];
    const rules = { appliedTo: [{ nodeSelector }], traffic, ingress, egress };
    return [
      {
        kind: 'ClusterNetworkPolicy',
        apiGroup,
        name: `${PREFIX}${name}/${traffic}`,
        uid,
        generation,
        spec: { priority: 1, ...rules },
      },
    ];
  };
  return [...policy('Host'), ...policy('NodePort')];
}

function peersAndPorts({ from, to, ports, protocols }: RequiredFlow) {
  return {
    ...present({ from, to, ports, protocols }),
  };
}
