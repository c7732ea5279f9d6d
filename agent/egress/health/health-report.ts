/** Results of a node's probes of gateways. */
export interface EgressHealthReport {
  /** Gateway nodes that it does not reach through the tunnel, sorted. */
  readonly unreachable: readonly string[];
  /** Gateways of which it is a candidate and that it can't serve, with the reason. */
  readonly unready: ReadonlyMap<string, string>;
  /** By gateway node that is asked; null: it has not answered yet. */
  readonly roundTrips: ReadonlyMap<string, number | null>;
}
