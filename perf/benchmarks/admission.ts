import { atMost, type Benchmark, figure, trials } from '../measure/figure.ts';
import { column, runTrial } from '../measure/process.ts';

export const admission: Benchmark = {
  name: 'admission',
  title: 'admission: the largest policy, and the largest bodies',
  how: "perf/trials/admission.ts and, for egress gateways, perf/trials/admission-egress.ts: the webhook with TLS, beside 100 policies of 1,000 rules. The largest allowed policies (1,000 rules) and bodies of 8 MB, each a list, map or text that some step reads, from a client in another thread; the worst of each trial. Egress: EgressPolicies and EgressGateways by turns, a pod replaced before each, beside 5,000 policies, 100 gateways and 100,000 pods, in Nodes' networks or outside of all; 95 of 100 answers are faster.",
  async run(settings) {
    const rows: Record<string, number>[] = [];
    const egress: Record<'inside' | 'outside', Record<string, number>[]> = { inside: [], outside: [] };
    const crowd = { pods: 100_000, policies: 5000 };
    for (let i = 0; i < trials(settings, 5, 2); i++) {
      rows.push(await runTrial('admission', {}));
      egress.inside.push(await runTrial('admission-egress', { ...crowd, hasNetworks: true }));
      egress.outside.push(await runTrial('admission-egress', { ...crowd, hasNetworks: false }));
    }
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
      ...Object.entries(egress).flatMap(([where, found]) => [
        figure(
          `checking an EgressPolicy, pods ${where} of networks, until the answer`,
          'ms',
          column(found, 'policy'),
          {
            target: atMost(50),
          },
        ),
        figure('… an EgressGateway', 'ms', column(found, 'gateway'), { target: atMost(50) }),
        figure('… processor time of the main thread', 'ms', column(found, 'main')),
        figure('… processor time of its process', 'ms', column(found, 'child')),
      ]),
    ];
  },
};
