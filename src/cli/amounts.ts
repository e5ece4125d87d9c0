export { duration, many, number, size } from '../core/amounts.ts';
