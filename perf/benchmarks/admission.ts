import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

export const admission: Benchmark = {
  name: 'admission',
  title: 'admission: the largest policy, and the largest bodies',
  how: 'perf/trials/admission.ts: the webhook with TLS, beside 100 policies of 1,000 rules. The largest allowed policies (1,000 rules) and bodies of 8 MB, each a list, map or text that some step reads, from a client in another thread; the worst of each trial.',
  async run(settings) {
    const rows: Record<string, number>[] = [];
    for (let i = 0; i < trials(settings, 5); i++) rows.push(await runTrial('admission', {}));
    return [
      figure(
        'validating the largest allowed policy, processor time of its process',
        'ms',
        column(rows, 'policyCpu'),
        {
          target: atMost(50),
        },
      ),
      figure('… until the answer', 'ms', column(rows, 'policy')),
      figure('refusing the largest body, processor time of the main thread', 'ms', column(rows, 'bodyMain'), {
        target: atMost(20),
      }),
      figure('… until the answer', 'ms', column(rows, 'body')),
    ];
  },
};
