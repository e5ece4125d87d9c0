import { expect, test } from 'vitest';
import { createSpeedMeter, estimateRemainingMs } from '../../src/cli/progress.ts';

test('measures even growth exactly from the first step', () => {
  const speed = createSpeedMeter(1000, 10_000);
  expect(speed.perSecond(5000)).toBe(0);
  for (let s = 1; s <= 100; s++) {
    speed.record(1000 + s * 1000, s * 7);
    expect(speed.perSecond(1000 + s * 1000)).toBeCloseTo(7, 9);
  }
});

test('weights steps by their duration', () => {
  const [fine, coarse] = [createSpeedMeter(0, 10_000), createSpeedMeter(0, 10_000)];
  for (let ms = 10; ms <= 60_000; ms += 10) fine.record(ms, ms / 10);
  for (let ms = 7500; ms <= 60_000; ms += 7500) coarse.record(ms, ms / 10);
  expect(fine.perSecond(60_000)).toBeCloseTo(100, 6);
  expect(coarse.perSecond(60_000)).toBeCloseTo(100, 6);
});

test('time without growth lowers the rate, and old growth hardly counts', () => {
  const speed = createSpeedMeter(0, 10_000);
  for (let s = 1; s <= 60; s++) speed.record(s * 1000, s * 10);
  expect(speed.perSecond(70_000)).toBeGreaterThan(3);
  expect(speed.perSecond(70_000)).toBeLessThan(4);
  for (let s = 61; s <= 120; s++) speed.record(s * 1000, 600 + (s - 60) * 100);
  expect(speed.perSecond(120_000)).toBeGreaterThan(99);
});

test('counts several steps at the same time', () => {
  const speed = createSpeedMeter(0, 10_000);
  for (const value of [1, 2, 3, 4]) speed.record(1000, value);
  speed.record(2000, 4);
  expect(speed.perSecond(2000)).toBeGreaterThan(1.5);
});

/** Simulates a task whose items take `msOf`, and returns the error of the remaining time at each item. */
function estimates(items: number, msOf: (item: number) => number): { at: number; ratio: number }[] {
  const ends: number[] = [];
  for (let i = 0; i < items; i++) ends.push((ends.at(-1) ?? 0) + msOf(i));
  const total = ends.at(-1)!;
  const speed = createSpeedMeter(0, 60_000);
  return ends.flatMap((ms, i) => {
    speed.record(ms, i + 1);
    const left = estimateRemainingMs({ done: i + 1, total: items }, ms, speed.perSecond(ms));
    return left === null ? [] : [{ at: ms / total, ratio: left / (total - ms) }];
  });
}

test('estimates the remaining time of even work exactly', () => {
  for (const { ratio } of estimates(600, () => 1000)) expect(ratio).toBeCloseTo(1, 6);
});

test('bursts do not distort the remaining time', () => {
  const told = estimates(3000, (i) => (i % 30 === 0 ? 20_000 : 10)).filter(({ at }) => at > 0.1 && at < 0.9);
  expect(told.length).toBeGreaterThan(1000);
  for (const { ratio } of told) {
    expect(ratio).toBeGreaterThan(0.6);
    expect(ratio).toBeLessThan(1.6);
  }
});

test('the remaining time adapts within minutes when the service slows down', () => {
  const told = estimates(2000, (i) => (i < 1000 ? 200 : 600)).filter(({ at }) => at > 0.5 && at < 0.9);
  for (const { ratio } of told) {
    expect(ratio).toBeGreaterThan(0.5);
    expect(ratio).toBeLessThan(1.5);
  }
});

test('gives no estimate at the start and at the end', () => {
  expect(estimateRemainingMs({ done: 5, total: 10 }, 1000, 5)).toBeNull();
  expect(estimateRemainingMs({ done: 0, total: 10 }, 60_000, 0)).toBeNull();
  expect(estimateRemainingMs({ done: 10, total: 10 }, 60_000, 1)).toBeNull();
  expect(estimateRemainingMs({ done: 5, total: 10 }, 5000, 1)).toBe(5000);
});
