/**
 * What destination NAT passes on: ways by which clients reach a pod, and the rules that others make
 * for them.
 */
import type { Namespace } from '../netns/namespace.ts';

export type Family = 4 | 6;
export type Protocol = 'tcp' | 'udp';
/** How a pod is reached from outside. */
export type Kind = 'nodePort' | 'loadBalancer' | 'externalIP' | 'hostPort' | 'hostPortOfAddress';

/** One address and port that a client may use, and the pod behind. */
export interface Way {
  /** Unique in its family. */
  readonly name: string;
  readonly kind: Kind;
  readonly protocol: Protocol;
  readonly family: Family;
  /** What the client connects to; of the node itself for NodePorts and host ports. */
  readonly address: string;
  readonly port: number;
  /** The Service's own address and port inside of the cluster. */
  readonly clusterIP: string;
  readonly clusterPort: number;
  readonly pod: string;
  readonly podPort: number;
  /** externalTrafficPolicy: Cluster. The pod then sees the node's address, not the client's. */
  readonly masqueraded: boolean;
}

/** What the rules need to know of the node. */
export interface Surroundings {
  readonly nodeAddresses: Readonly<Record<Family, readonly string[]>>;
  readonly podCidr: Readonly<Record<Family, string>>;
}

/** Rules that another program makes: what they can do, and how they get into the kernel. */
export interface Shape {
  readonly name: string;
  readonly kinds: readonly Kind[];
  /** What this machine lacks for it; undefined when nothing. */
  missing(): Promise<string | undefined>;
  install(node: Namespace, ways: readonly Way[], surroundings: Surroundings): Promise<void>;
}

/** A shape of nft tables, one for each family. */
export function nftShape(
  name: string,
  kinds: readonly Kind[],
  table: (family: Family, ways: readonly Way[], surroundings: Surroundings) => string,
): Shape {
  return {
    name,
    kinds,
    missing: async () => undefined,
    async install(node, ways, surroundings) {
      const tables = FAMILIES.map((family) =>
        table(
          family,
          ways.filter((way) => way.family === family),
          surroundings,
        ),
      );
      await node.run(['nft', '-f', '-'], { stdin: tables.join('\n') });
    },
  };
}

export const FAMILIES: readonly Family[] = [4, 6];

/** `address:port` as nft and iptables take it. */
export function endpoint(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
