import type { Config } from '../../apis/config.ts';
import type { Lint } from '../../apis/console-documents.ts';
import type { ClusterObjects } from '../../apis/objects.ts';
import { errorMessage } from '../../lib/sharing/error.ts';
import { compiler } from '../compile/compile.ts';
import { clusterLint, firstFindings } from '../difference/cluster-lint.ts';
import { ChangeOverrunError, ImpactJudge } from '../impact/impact.ts';
import { serveObjects } from '../impact/object-mirror.ts';
import { type PreviewResult, previewOf } from './preview.ts';

/** The questions of surveys.ts to the process of this file; milliseconds from then on. */
export type SurveyQuestion =
  | { readonly ask: 'lint'; readonly time: number }
  | { readonly ask: 'preview'; readonly yaml: string; readonly time: number };

/** With the configuration, which stays the same. */
export type SurveyChildQuestion = SurveyQuestion & { readonly config: Config };

type LintResult = Pick<Lint, 'findings' | 'leftOut'>;

export type SurveyAnswer =
  | { readonly lint: LintResult }
  | { readonly preview: PreviewResult }
  | { readonly error: string; readonly isLate: boolean };

/** Compilers that threw may be inconsistent: the next question has others. */
function surveying() {
  let tools: { readonly compile: ReturnType<typeof compiler>; readonly judge: ImpactJudge } | null = null;
  return (
    question: SurveyChildQuestion,
    objects: ClusterObjects,
    send: (answer: SurveyAnswer) => void,
  ): void => {
    const { config } = question;
    const current = tools ?? { compile: compiler(), judge: new ImpactJudge(config) };
    tools = null;
    const end = performance.now() + question.time;
    const checkpoint = (): void => {
      if (performance.now() > end) throw new ChangeOverrunError('the time is over');
    };
    try {
      if (question.ask === 'lint')
        send({ lint: firstFindings(clusterLint(current.compile(objects), { config, checkpoint })) });
      else send({ preview: previewOf(question.yaml, objects, { config, judge: current.judge, checkpoint }) });
      tools = current;
    } catch (error) {
      const text = errorMessage(error);
      send({ error: text, isLate: error instanceof ChangeOverrunError });
    }
  };
}

serveObjects(surveying());
