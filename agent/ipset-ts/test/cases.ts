/**
 * The behaviour of ipset in one table, run against the fake (fake.test.ts) and against the kernel.
 */
import type { Case } from './case.ts';
import { ENTRY_CASES } from './entrycases.ts';
import { RESTORE_CASES } from './restorecases.ts';
import { SET_CASES } from './setcases.ts';
import { TYPE_CASES } from './typecases.ts';

export const CASES: readonly Case[] = [...SET_CASES, ...ENTRY_CASES, ...RESTORE_CASES, ...TYPE_CASES];
