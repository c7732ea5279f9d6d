import type { Flow } from './flow.ts';
import type { LabelSelector } from './label-selector.ts';
import type {
  Direction,
  NetworkPolicyPeer,
  NetworkPolicyPort,
  NetworkPolicyProtocol,
  PolicyTraffic,
} from './objects.ts';

/** Flows, as a rule's peers and ports: every value of what is absent. */
export interface RequiredFlow {
  readonly name?: string;
  readonly direction: Direction;
  /** Ingress only. */
  readonly from?: readonly NetworkPolicyPeer[];
  /** Egress only. */
  readonly to?: readonly NetworkPolicyPeer[];
  readonly ports?: readonly NetworkPolicyPort[];
  readonly protocols?: readonly NetworkPolicyProtocol[];
  /** Absent: Host. NodePort: ingress only. */
  readonly traffic?: PolicyTraffic;
}

export interface GuardrailSpec {
  readonly nodeSelector: LabelSelector;
  readonly mustAllow?: readonly RequiredFlow[];
  readonly mustDeny?: readonly RequiredFlow[];
}

/** Connections that must stay allowed, or denied, whatever the policies are. */
export interface Guardrail {
  readonly kind: 'Guardrail';
  readonly apiGroup: 'nodewall.io';
  readonly name: string;
  /** '' if the object has none (manifests). */
  readonly uid: string;
  /** 0 if the object has none (manifests). */
  readonly generation: number;
  readonly spec: GuardrailSpec;
}

/** A flow of a Guardrail whose verdict is another than it must be. */
export interface Violation {
  readonly node: string;
  /** As in `mustAllow[0]`. */
  readonly item: string;
  readonly flow: Flow;
  /** The rule that decides; null: none. */
  readonly rule: { readonly policy: string; readonly rule: string; readonly ruleIndex: number } | null;
}

export const GUARDRAIL_PHASES = ['Holds', 'Broken'] as const;

/** The `status` of a Guardrail. */
export interface GuardrailStatus {
  readonly phase: (typeof GUARDRAIL_PHASES)[number];
  readonly observedGeneration: number;
  /** By node name, the first of them. */
  readonly violations: readonly Violation[];
}

/** The most violations in a status. */
export const MOST_VIOLATIONS = 20;
