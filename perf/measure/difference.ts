/** rule: the action of one rule; deny: a blanket deny for all nodes; all: every rule's action. */
export const DIFFERENCE_CHANGES = ['rule', 'deny', 'all'] as const;

export interface DifferenceInput {
  readonly nodes: number;
  readonly pods: number;
  readonly policies: number;
  readonly rulesAPolicy: number;
  readonly change: (typeof DIFFERENCE_CHANGES)[number];
}
