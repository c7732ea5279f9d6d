import { EMPTY_STATE } from '../../apply/plan/current-state.ts';
import { transaction } from '../../apply/plan/transaction.ts';
import { transactionText } from '../../apply/plan/transaction-text.ts';
import { RULE_EXTENSION } from '../../extension/rules.ts';
import { rulesetText } from '../../render/nft-text.ts';
import { render } from '../../render/render.ts';
import type { DataplaneText } from '../kind.ts';

export const nftablesText: DataplaneText = {
  ruleset(state, config) {
    const extra = RULE_EXTENSION.tables(state).map(({ text }) => text);
    return [rulesetText(render(state, config)), ...extra].join('');
  },
  firstTransaction: (state, config) => transactionText(transaction(EMPTY_STATE, render(state, config))),
};
