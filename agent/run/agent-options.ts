import type { LogOptions } from '../../lib/process/log.ts';

/** The options of `nodewall agent`. */
export interface AgentOptions extends LogOptions {
  readonly manifests?: readonly string[];
  readonly node: string;
  readonly config?: string;
  readonly stateDir: string;
  readonly once: boolean;
  readonly strict: boolean;
  readonly featureGates?: string;
  /** https://HOST:PORT; requires the token, and either the CA or an API server that has it. */
  readonly controller?: string;
  readonly tokenFile?: string;
  readonly caFile?: string;
  /** https://HOST:PORT; requires the two files. */
  readonly apiServer?: string;
  readonly apiTokenFile?: string;
  readonly apiCaFile?: string;
  readonly metricsListen?: string;
  /** The path of a Unix socket for /healthz and /readyz; absent: none. */
  readonly healthSocket?: string;
  readonly metricsRules?: boolean;
}
