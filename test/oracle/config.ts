/** One entry of a failsafe list. */
export interface FailsafeEntry {
  protocol?: string;
  port?: number;
  endPort?: number;
  peers: 'nodes' | 'controllers' | 'any' | string[];
}

/** The part of the agent's configuration that verdicts depend on. */
export interface OracleConfig {
  exemptions?: {
    loopback?: boolean;
    neighborDiscovery?: boolean;
    multicastListener?: boolean;
    dhcpClient?: boolean;
    localPods?: boolean;
  };
  antiSpoofing?: boolean;
  endpointsWithoutPods?: string[];
  interfaceGroups?: Record<string, number | { group: number }>;
  failsafe?: { ingress?: FailsafeEntry[]; egress?: FailsafeEntry[] };
}

/** What `--names` gives: the addresses that each name resolves to. */
export type Names = Readonly<Record<string, readonly string[]>>;
