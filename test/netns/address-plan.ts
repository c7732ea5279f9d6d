/** Which addresses the namespaces of a topology have. */

/** One host identity in both families. */
export interface AddressPair {
  readonly v4: string;
  readonly v6: string;
}

export interface ClientAddress extends AddressPair {
  /** Index of the client namespace that owns it. */
  readonly client: number;
  /** Link group of the node's interface towards that client; 0 where nobody set one. */
  readonly group: number;
}

export interface AddressPlan {
  readonly nodeAddresses: readonly AddressPair[];
  readonly clientAddresses: readonly ClientAddress[];
  /** IPv4 multicast groups that the node has joined: what is sent there passes its input hook. */
  readonly multicastGroups: readonly string[];
}

export interface AddressPlanOptions {
  /** Client namespaces; default 2, at most 100. */
  readonly clients?: number;
  /** Default 4. */
  readonly addressesPerClient?: number;
  /** Default 2. */
  readonly nodeAddresses?: number;
  /** Link group of the node's interface to client 0, 1, …; default 0 each. */
  readonly groups?: readonly number[];
  readonly multicastGroups?: readonly string[];
}

/** Node 10.90.0.10 / fd90::10 upwards; client c has 10.(100+c).0.10 / fd90:(100+c)::10 upwards. */
export function addressPlan(options: AddressPlanOptions = {}): AddressPlan {
  const clients = options.clients ?? 2;
  const count = options.addressesPerClient ?? 4;
  const pairs = (net: number, v6: string, n: number) =>
    Array.from({ length: n }, (_, i) => ({
      v4: `10.${net}.${(i + 10) >> 8}.${(i + 10) & 255}`,
      v6: `${v6}::${(i + 16).toString(16)}`,
    }));
  return {
    nodeAddresses: pairs(90, 'fd90', options.nodeAddresses ?? 2),
    clientAddresses: Array.from({ length: clients }, (_, client) =>
      pairs(100 + client, `fd90:${100 + client}`, count).map((pair) => ({
        ...pair,
        client,
        group: options.groups?.[client] ?? 0,
      })),
    ).flat(),
    multicastGroups: options.multicastGroups ?? [],
  };
}
