/** What `explain` says of an egress flow (docs/egress.md). */
export interface EgressAnswer {
  readonly verdict: 'Gateway' | 'Direct' | 'Drop';
  readonly policy: string | null;
  readonly gateway: string | null;
  readonly node: string | null;
  readonly address: string | null;
  readonly reason: string;
}

/** One answer that is right, or a family of answers that differ in node and address. */
export interface Permission extends Pick<EgressAnswer, 'verdict' | 'policy' | 'gateway'> {
  /** Where several hold, any. */
  readonly reasons: readonly string[];
  /** Of verdict Gateway. */
  readonly exit?: Exit;
}

/** Where a packet leaves. */
export interface Exit {
  /** Who has the address: the gateway (Shared), the policy; null: each node its own. */
  readonly holder: string | null;
  /** Others may have the address too. */
  readonly mayBeShared: boolean;
  /** How many addresses of a family the holder may have. */
  readonly count: number;
  /** Spread: flows of one policy may leave by several nodes. */
  readonly isSpread: boolean;
  /** Null: the answer does not say which (the node's own). */
  readonly admits: (node: string, address: string | null) => boolean;
  readonly text: string;
}

/** True where the answer is one of those that the manifests permit. */
export function isPermitted(permissions: readonly Permission[], answer: EgressAnswer): boolean {
  return permissions.some(
    (one) =>
      one.verdict === answer.verdict &&
      one.policy === answer.policy &&
      one.gateway === answer.gateway &&
      one.reasons.includes(answer.reason) &&
      isRightExit(one.exit, answer),
  );
}

function isRightExit(exit: Exit | undefined, { node, address }: EgressAnswer): boolean {
  if (exit === undefined) return node === null && address === null;
  return node !== null && exit.admits(node, address);
}

/** For messages. */
export function describePermission({ verdict, policy, gateway, reasons, exit }: Permission): string {
  const by = exit === undefined ? '' : `, ${exit.text}`;
  return `${verdict} (${reasons.join('|')}) policy ${policy} gateway ${gateway}${by}`;
}
