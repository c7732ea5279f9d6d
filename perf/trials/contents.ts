/** Enforces a directory and says what the table is made of. */
import { KEY_LENGTH } from '../../agent/render/ruleset.ts';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import { stages } from './stages.ts';
import { answer, trialInput } from './trial.ts';

const { manifests, dispatch } = trialInput<{ manifests: string; dispatch: 'indexed' | 'linear' }>();
const { objects } = await loadManifests([manifests]);
const agent = stages({ ...DEFAULT_CONFIG, dispatch });
const { apply } = await agent.enforce(objects);
const { chains, sets, maps } = agent.ruleset();
const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, number) => total + number, 0);
const ofRules = [...chains.values()].map(({ rules }) => rules.length);
answer({
  apply,
  chains: chains.size,
  rules: sum(ofRules),
  sets: sets.size,
  members: sum(
    [...sets.values()].map(
      ({ key, family, members }) =>
        members.singles.length / KEY_LENGTH[key][family] + members.prefixes.length,
    ),
  ),
  maps: maps.size,
  mapElements: sum([...maps.values()].map(({ targets }) => targets.length)),
});
await agent.close();
