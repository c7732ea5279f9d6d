import { type AskedNodes, MOST_ASKED } from '../../apis/console-documents.ts';
import type { NodeQuestion, QuestionAnswer } from '../../apis/node-question.ts';
import { atOnce } from '../../lib/process/lane.ts';

export type AskNode = (node: string, question: NodeQuestion) => Promise<QuestionAnswer>;

/** Nodes that are asked at the same time: an answer has up to a megabyte. */
const AT_ONCE = 8;

/**
 * Asks nodes the same, and gives each answer to `take`. Those beyond the first `MOST_ASKED`, and
 * those that do not answer in time, are only named.
 *
 * @param all how many nodes there are
 * @param take gets parsed JSON of whatever form; may throw, which counts as no answer
 */
export async function askNodes(
  { ask, nodes, all }: { readonly ask: AskNode; readonly nodes: readonly string[]; readonly all: number },
  questions: readonly NodeQuestion[],
  take: (node: string, about: NodeQuestion['about'], answer: unknown) => void,
): Promise<AskedNodes> {
  const asked = nodes.slice(0, MOST_ASKED);
  const failed: AskedNodes['failed'][number][] = [];
  await atOnce(asked, AT_ONCE, async (node) => {
    try {
      for (const question of questions) {
        const answered = await ask(node, question);
        if ('problem' in answered) throw new Error(answered.problem);
        take(node, question.about, JSON.parse(answered.text));
      }
    } catch (error) {
      failed.push({ node, message: (error as Error).message });
    }
  });
  failed.sort((a, b) => (a.node < b.node ? -1 : 1));
  return { nodes: asked, failed, notAsked: Math.max(0, all - asked.length) };
}
