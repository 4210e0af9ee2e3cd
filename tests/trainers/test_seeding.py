from rlvr.trainers.seeding import derive, task_order


def test_seeds_differ_by_every_part_of_their_name():
    names = [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2), (0, "a1"), (0, "a", 1, 0), (0, 1, "a")]
    assert len({derive(*name) for name in names}) == len(names)
    assert derive(0, "a", 1) == derive(0, "a", 1)


def test_every_task_comes_once_an_epoch_in_an_order_of_its_own():
    epochs = [task_order(5, 10, start, 10) for start in (0, 10, 20)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2]


def test_the_order_does_not_depend_on_where_one_looks_from():
    whole = task_order(5, 7, 0, 40)
    assert [task_order(5, 7, start, 4) for start in range(0, 40, 4)] == [whole[i : i + 4] for i in range(0, 40, 4)]


def test_a_huge_family_is_drawn_from_without_being_shuffled():
    drawn = task_order(5, 2**62, 100, 1000)
    assert len(set(drawn)) == 1000
    assert drawn[10:] == task_order(5, 2**62, 110, 990)
