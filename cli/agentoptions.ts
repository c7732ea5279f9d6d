import type { LogOptions } from './log.ts';

/** The options of `nodewall agent`. */
export interface AgentOptions extends LogOptions {
  readonly manifests?: readonly string[];
  readonly node: string;
  readonly config?: string;
  readonly stateDir: string;
  readonly once: boolean;
  readonly strict: boolean;
  readonly featureGates?: string;
  readonly controller?: string;
}
