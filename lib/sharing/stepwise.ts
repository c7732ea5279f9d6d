/** Work that may rest wherever it yields; whoever does it says for how long. */
export type Stepwise<T> = Generator<void, T, void>;

/** Does all of it at once. */
export function finish<T>(work: Stepwise<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** A function that can be called in steps too. One call must end before the next begins. */
export interface Stepped<A, R> {
  (input: A): R;
  inSteps(input: A): Stepwise<R>;
}

export function stepped<A, R>(inSteps: (input: A) => Stepwise<R>): Stepped<A, R> {
  return Object.assign((input: A) => finish(inSteps(input)), { inSteps });
}
