import { type NodeFlow, type NodeFlows, parseNodeFlows } from './node-flows.ts';

/** Kinds of a page: an answer has not room for many more. */
const PAGE = 1_500;
/** An inventory of 10,000 kinds has 15 at most, of kinds with the longest texts. */
const MOST_PAGES = 50;

/**
 * All kinds of a node. Those that are there from the first page to the last are in the result, and
 * none is in it twice. Throws if `ask` does, if the node's answers have no end, and an
 * InvalidError if one of them has another form.
 *
 * @param ask takes the parameters of a question about `flows`
 */
export async function allFlows(ask: (query: URLSearchParams) => Promise<unknown>): Promise<NodeFlows> {
  const flows: NodeFlow[] = [];
  let liveAt: string | null = null;
  let next: string | undefined = '';
  for (let page = 0; page < MOST_PAGES; page++) {
    const { continue: after, ...answer }: NodeFlows = parseNodeFlows(
      await ask(new URLSearchParams({ continue: next, lines: String(PAGE) })),
    );
    flows.push(...answer.flows);
    if (page === 0) liveAt = answer.liveAt;
    if (after === undefined) return { ...answer, liveAt, flows, isCut: false };
    if (after <= next) break;
    next = after;
  }
  throw new Error('the pages of its flow inventory have no end');
}
