import { explanationOf, type NodeExplanation, type RulesInForce } from '../agent/inspect/explanation.ts';
import type { Translation } from '../agent/inspect/translation.ts';
import type { Explanation, Flow } from '../apis/flow.ts';

/** The verdict on this machine. */
export interface ExplanationHere extends Explanation {
  /** The acts of other tables on such packets before; absent: none, or they cannot be read. */
  readonly translation?: Translation;
}

type Translations = (flow: Flow) => Translation | null;

/** Evaluates the rules in force here; others' rules are read once, for the first flow. */
export function explainerHere(
  rules: RulesInForce,
): (flow: Flow) => Promise<NodeExplanation & { readonly explanation: ExplanationHere }> {
  let translations: Promise<Translations> | null = null;
  return async (flow) => {
    translations ??= import('../agent/inspect/translation.ts').then(({ readTranslations }) =>
      readTranslations(),
    );
    const translation = (await translations)(flow);
    if (translation === null) return await explanationOf(rules, flow);
    const { node, explanation } = await explanationOf(rules, { ...flow, ...translation.judgedAs });
    return { node, explanation: { ...explanation, translation } };
  };
}

/** The lines after the verdict; '' without a translation. */
export function translationText({ translation }: ExplanationHere): string {
  if (translation === undefined) return '';
  const { tables, judgedAs } = translation;
  const by = `rules of other tables give these packets another destination: ${tables.join(', ')}`;
  if (judgedAs === undefined)
    return `; ${by}; where that is a container or pod, ask with "traffic": "NodePort", where it is another port of this machine, for that port`;
  const as = 'traffic' in judgedAs ? 'as NodePort traffic' : `at port ${judgedAs.dstPort}`;
  return `; judged ${as}: ${by}`;
}
