import type { ControllerItem, ControllerState } from '../../apis/controller-state.ts';
import type { LeaseAnswer, LeaseRequest } from '../../apis/egress/lease.ts';
import type { InwardAnswer, InwardQuestion, InwardResult, PeerAnswer } from '../../apis/probes.ts';
import type { Authenticate } from './auth.ts';

/** Heartbeats of egress gateways. */
export interface LeaseService {
  /** The leader's answer, whichever replica leads; null: none does with certainty. */
  answer(request: LeaseRequest): Promise<LeaseAnswer | null>;
  /** Null: this replica does not lead. */
  answerAsLeader(request: LeaseRequest): LeaseAnswer | null | Promise<LeaseAnswer | null>;
}

/** Connections to nodes, for their guarded apply. */
export interface ProbeService {
  answer(node: string, question: InwardQuestion): Promise<InwardAnswer>;
  /** Makes those that this replica itself can. */
  answerHere(node: string, question: InwardQuestion): Promise<readonly InwardResult[]>;
  answered(prober: string, answer: PeerAnswer): void;
  answeredHere(prober: string, answer: PeerAnswer): void;
}

/** The state of the controllers. */
export interface ControllerStates {
  own(): Promise<ControllerState>;
  /** The items of the others: one of each, whether it answers or not. */
  others(): Promise<readonly ControllerItem[]>;
}

/** The metrics at `/metrics` and below, for callers that the API server allows to read them. */
export interface MetricsSource {
  /** Tokens of scrapers are for the API server. */
  readonly authenticate: Authenticate;
  readonly contentType: string;
  /** The controller's own. */
  readonly text: () => Promise<string>;
  /** Metrics of all nodes; or the reason why there is no answer now. */
  readonly allNodes: () => Promise<{ readonly text: string } | { readonly problem: string }>;
}
