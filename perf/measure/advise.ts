/** shared: most peers are Nodes and pods; distinct: each is an address of its own. */
export const ADVISE_PEERS = ['shared', 'distinct'] as const;

export interface AdviseInput {
  readonly nodes: number;
  /** Of each node. */
  readonly kinds: number;
  readonly peers: (typeof ADVISE_PEERS)[number];
}
