/** When something that is asked again and again counts as lost, and as back. */
export interface LossThresholds {
  /** So many questions in a row without an answer: lost. */
  readonly losses: number;
  /** So many answers in a row: back. */
  readonly answers: number;
}

export interface Answers {
  readonly isLost: boolean;
  /** How many answers in a row would change `isLost`. */
  readonly inRow: number;
}

/** A node that nobody has asked yet counts as there. */
export const UNASKED: Answers = { isLost: false, inRow: 0 };

export const LOST: Answers = { isLost: true, inRow: 0 };

export function withAnswer(
  { isLost, inRow }: Answers,
  isAnswered: boolean,
  patience: LossThresholds,
): Answers {
  if (isAnswered !== isLost) return { isLost, inRow: 0 };
  const now = inRow + 1;
  const enough = isLost ? patience.answers : patience.losses;
  return now >= enough ? { isLost: !isLost, inRow: 0 } : { isLost, inRow: now };
}
